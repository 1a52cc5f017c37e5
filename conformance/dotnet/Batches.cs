// Microsoft.Azure.Cosmos (version 3): transactional batches.

using System.Collections.ObjectModel;
using System.Net;
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

namespace Planisphere.Conformance;

public sealed class Batches : CosmosSuite
{
    static readonly PartitionKey A = new("a");
    static readonly TransactionalBatchItemRequestOptions Quiet = new() { EnableContentResponseOnWrite = false };

    static IEnumerable<int> Codes(TransactionalBatchResponse response) => response.Select(result => (int)result.StatusCode);
    static Task<int> Count(Container container) =>
        container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c").ReadNextAsync().ContinueWith(page => page.Result.Single());

    public async Task EveryOperationSeesTheOnesBefore()
    {
        var container = await NewContainer();
        foreach (var id in new[] { "old1", "old2", "old3" }) await container.CreateItemAsync(new Thing(id, "a", 1), A);
        using var response = await container.CreateTransactionalBatch(A)
            .CreateItem(new Thing("new", "a", name: "Zoë \u2603"))
            .UpsertItem(new Thing("up", "a"))
            .UpsertItem(new Thing("old1", "a", 7))
            .ReplaceItem("old1", new Thing("old1", "a", 8))
            .PatchItem("old2", [PatchOperation.Increment("/n", 4), PatchOperation.Add("/name", "bob")])
            .ReadItem("old2")
            .CreateItemStream(new MemoryStream(Encoding.UTF8.GetBytes("""{ "id" : "s", "pk":"a", "n": 2.50 }""")))
            .DeleteItem("old3")
            .ExecuteAsync();
        Expect.That(response.IsSuccessStatusCode, response.ErrorMessage ?? "success");
        Expect.Rows([201, 201, 200, 200, 200, 200, 201, 204], Codes(response));
        Expect.Equal("Zoë \u2603", response.GetOperationResultAtIndex<Thing>(0).Resource.name);
        var read = response.GetOperationResultAtIndex<Thing>(5);
        Expect.Equal((5, "bob"), (read.Resource.n, read.Resource.name));
        Expect.That(response.Take(7).All(result => result.ETag is { Length: > 0 }), "versions");
        Expect.Equal(null, response.GetOperationResultAtIndex<Thing>(7).Resource);
        Expect.That(response.RequestCharge > 0 && response.ActivityId is { Length: > 0 } && response.Headers.Session.StartsWith("0:-1#"), "charge, id and session token");
        Expect.That(Math.Abs(response.Sum(result => Charge(result)) - response.RequestCharge) < 0.1, "the charges add up");
        Expect.Equal(8, (await container.ReadItemAsync<Thing>("old1", A)).Resource.n);
        Expect.Equal(5, await Count(container));
    }

    static double Charge(TransactionalBatchOperationResult result) =>
        (double)result.GetType().GetProperty("RequestCharge", System.Reflection.BindingFlags.NonPublic | System.Reflection.BindingFlags.Public | System.Reflection.BindingFlags.Instance)!.GetValue(result)!;

    public async Task AFailureUndoesTheBatchAndIsExplained()
    {
        var container = await NewContainer();
        var old = await container.CreateItemAsync(new Thing("old", "a", 1), A);
        var stale = new TransactionalBatchItemRequestOptions { IfMatchEtag = "\"stale\"" };
        var never = new TransactionalBatchPatchItemRequestOptions { FilterPredicate = "from c where c.n = 2" };
        (Func<TransactionalBatch, TransactionalBatch> Add, int Status)[] failures =
        [
            (batch => batch.CreateItem(new Thing("old", "a")), 409),
            (batch => batch.ReadItem("none"), 404),
            (batch => batch.DeleteItem("none"), 404),
            (batch => batch.ReplaceItem("old", new Thing("old", "a"), stale), 412),
            (batch => batch.UpsertItem(new Thing("old", "a"), stale), 412),
            (batch => batch.DeleteItem("old", stale), 412),
            (batch => batch.PatchItem("old", [PatchOperation.Set("/n", 3)], never), 412),
            (batch => batch.PatchItem("old", [PatchOperation.Remove("/absent")]), 400),
            (batch => batch.CreateItem(new Thing("x", "b")), 400),
        ];
        foreach (var (add, status) in failures)
        {
            var batch = add(container.CreateTransactionalBatch(A).CreateItem(new Thing("1", "a"))).CreateItem(new Thing("2", "a"));
            using var response = await batch.ExecuteAsync();
            Expect.Equal(status, (int)response.StatusCode);
            Expect.Rows([424, status, 424], Codes(response));
            Expect.That(!response.IsSuccessStatusCode && response.ErrorMessage is { Length: > 10 }, "a reason");
            Expect.That(response.RequestCharge > 0, "a charge");
            Expect.That(Math.Abs(response.Sum(result => Charge(result)) - response.RequestCharge) < 0.1, "the charges add up");
            Expect.Equal(1, await Count(container));
        }
        using var twice = await container.CreateTransactionalBatch(A).CreateItem(new Thing("1", "a")).CreateItem(new Thing("1", "a")).ExecuteAsync();
        Expect.Rows([424, 409], Codes(twice));
        Expect.Equal(old.ETag, (await container.ReadItemAsync<Thing>("old", A)).ETag);
    }

    public async Task ConditionsAndAnswersWithoutItems()
    {
        var container = await NewContainer();
        var old = await container.CreateItemAsync(new Thing("old", "a", 1), A);
        var known = new TransactionalBatchItemRequestOptions { IfNoneMatchEtag = old.ETag };
        var same = new TransactionalBatchItemRequestOptions { IfMatchEtag = old.ETag };
        using var response = await container.CreateTransactionalBatch(A)
            .CreateItem(new Thing("1", "a"), Quiet)
            .ReadItem("old", known)
            .ReadItem("old", same)
            .ReadItem("1", known)
            .ReplaceItem("old", new Thing("old", "a", 2), same)
            .ExecuteAsync();
        // What the reader knows already is no failure: all is kept.
        Expect.Equal(HttpStatusCode.MultiStatus, response.StatusCode);
        Expect.That(response.IsSuccessStatusCode, "success");
        Expect.Rows([201, 304, 304, 200, 200], Codes(response));
        Expect.That(response[0].ResourceStream is null && response[0].ETag is not null, "no item, but its version");
        Expect.Equal(old.ETag, response[1].ETag);
        Expect.Equal("1", response.GetOperationResultAtIndex<Thing>(3).Resource.id);
        Expect.Equal(2, (await container.ReadItemAsync<Thing>("old", A)).Resource.n);
        Expect.Equal(2, await Count(container));
    }

    public async Task AHundredOperationsAndNoMore()
    {
        var container = await NewContainer();
        TransactionalBatch Of(int count) =>
            Enumerable.Range(0, count).Aggregate(container.CreateTransactionalBatch(A), (batch, n) => batch.CreateItem(new Thing($"{n}", "a", n)));
        using (var refused = await Of(101).ExecuteAsync())
        {
            Expect.Equal(HttpStatusCode.BadRequest, refused.StatusCode);
            Expect.That(refused.ErrorMessage.Contains("more operations than what is supported"), refused.ErrorMessage);
        }
        Expect.Equal(0, await Count(container));
        using var response = await Of(100).ExecuteAsync();
        Expect.Equal(HttpStatusCode.OK, response.StatusCode);
        Expect.Equal(99, response.GetOperationResultAtIndex<Thing>(99).Resource.n);
        Expect.Equal(100, await Count(container));
    }

    public async Task WhatIsTooLargeIsRefused()
    {
        var container = await NewContainer();
        string text = new('x', 1_000_000);
        using (var refused = await container.CreateTransactionalBatch(A)
            .CreateItem(new Thing("1", "a", name: text)).CreateItem(new Thing("2", "a", name: text)).CreateItem(new Thing("3", "a", name: text)).ExecuteAsync())
        {
            Expect.Equal(HttpStatusCode.RequestEntityTooLarge, refused.StatusCode);
            Expect.Rows([413, 413, 413], Codes(refused));
        }
        using (var refused = await container.CreateTransactionalBatch(A)
            .CreateItem(new Thing("1", "a")).CreateItem(new Thing("2", "a", name: new string('x', 2 * 1024 * 1024))).ExecuteAsync())
            Expect.Equal(HttpStatusCode.RequestEntityTooLarge, refused.StatusCode);
        foreach (int n in Enumerable.Range(0, 10)) await container.CreateItemAsync(new Thing($"{n}", "a", name: text), A);
        var reads = Enumerable.Range(0, 10).Aggregate(container.CreateTransactionalBatch(A), (batch, n) => batch.ReadItem($"{n}"));
        using var response = await reads.ExecuteAsync();
        Expect.Equal(HttpStatusCode.RequestEntityTooLarge, response.StatusCode);
        Expect.Equal((424, 413), ((int)response[0].StatusCode, (int)response[9].StatusCode));
    }

    public async Task KeysOfEveryKind()
    {
        var container = await NewContainer();
        foreach (var (key, value) in new (PartitionKey, object?)[] { (new(5.5), 5.5), (new(3.0), 3), (new(true), true), (PartitionKey.Null, null), (new("ü✓😀\"\\"), "ü✓😀\"\\") })
        {
            using var response = await container.CreateTransactionalBatch(key)
                .CreateItem(new { id = "1", pk = value }).ReadItem("1").ExecuteAsync();
            Expect.Rows([201, 200], Codes(response));
        }
        using (var none = await container.CreateTransactionalBatch(PartitionKey.None).CreateItem(new { id = "1" }).DeleteItem("1").ExecuteAsync())
            Expect.Rows([201, 204], Codes(none));
        Container hierarchical = await Database.CreateContainerAsync(
            new ContainerProperties(NewId("c"), new Collection<string> { "/tenant", "/user" }));
        var whole = new PartitionKeyBuilder().Add("t1").Add(3).Build();
        using (var response = await hierarchical.CreateTransactionalBatch(whole).CreateItem(new { id = "1", tenant = "t1", user = 3 }).ReadItem("1").ExecuteAsync())
            Expect.Rows([201, 200], Codes(response));
        var missing = new PartitionKeyBuilder().Add("t1").AddNoneType().Build();
        using (var response = await hierarchical.CreateTransactionalBatch(missing).CreateItem(new { id = "1", tenant = "t1" }).ExecuteAsync())
            Expect.Rows([201], Codes(response));
        var prefix = new PartitionKeyBuilder().Add("t1").Build();
        using (var response = await hierarchical.CreateTransactionalBatch(prefix).ReadItem("1").ExecuteAsync())
            Expect.Equal(HttpStatusCode.BadRequest, response.StatusCode);
    }

    public async Task ABatchIsOneStepOfTheSession()
    {
        var container = await NewContainer();
        var before = await container.CreateItemAsync(new Thing("1", "a"), A);
        static long Position(string token) => long.Parse(token.Split('#')[1]);
        using var response = await container.CreateTransactionalBatch(A).CreateItem(new Thing("2", "a")).CreateItem(new Thing("3", "a")).ExecuteAsync();
        Expect.Equal(Position(before.Headers.Session) + 1, Position(response.Headers.Session));
        var ahead = new TransactionalBatchRequestOptions { SessionToken = $"0:-1#{Position(response.Headers.Session) + 1_000_000}" };
        using (var writes = await container.CreateTransactionalBatch(A).UpsertItem(new Thing("2", "a")).ExecuteAsync(ahead))
            Expect.Equal(HttpStatusCode.OK, writes.StatusCode);
        using var reads = await container.CreateTransactionalBatch(A).UpsertItem(new Thing("2", "a", 9)).ReadItem("2").ExecuteAsync(ahead);
        Expect.Equal(HttpStatusCode.NotFound, reads.StatusCode);
        Expect.Equal(0, (await container.ReadItemAsync<Thing>("2", A)).Resource.n);
    }

    public async Task UnreadableItemsFailAlone()
    {
        var container = await NewContainer();
        using var broken = new MemoryStream("""{"id":"""u8.ToArray());
        using var response = await container.CreateTransactionalBatch(A).CreateItem(new Thing("1", "a")).CreateItemStream(broken).ExecuteAsync();
        Expect.Rows([424, 400], Codes(response));
        await Expect.Refused(HttpStatusCode.NotFound, () => Database.GetContainer("none").CreateTransactionalBatch(A).ReadItem("1").ExecuteAsync());
    }

    public async Task ThrottledBatchesAreWaitedOut()
    {
        using var server = new Server("--throttling", "on");
        Database database = await Connect(server: server).CreateDatabaseAsync(NewId("db"));
        Container container = await database.CreateContainerAsync(NewId("c"), "/pk", 400);
        // Each of some 100 RU.
        var batches = Enumerable.Range(0, 15).Select(async n =>
        {
            var key = new PartitionKey($"p{n}");
            using var response = await Enumerable.Range(0, 20)
                .Aggregate(container.CreateTransactionalBatch(key), (batch, i) => batch.CreateItem(new Thing($"{i}", $"p{n}")))
                .ExecuteAsync();
            return (int)response.StatusCode;
        });
        Expect.Rows(Enumerable.Repeat(200, 15), await Task.WhenAll(batches));
    }
}
