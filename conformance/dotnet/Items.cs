// Microsoft.Azure.Cosmos (version 3): items, one at a time and many.

using System.Net;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

namespace Planisphere.Conformance;

public sealed class Items : CosmosSuite
{
    static readonly PartitionKey A = new("a");

    public async Task CreateReadReplaceUpsertDelete()
    {
        var container = await NewContainer();
        var made = await container.CreateItemAsync(new Thing("1", "a", 1, "Zoë \u2603", ["x", "y"], new Part("wheel", 1.25)), A);
        Expect.Equal(HttpStatusCode.Created, made.StatusCode);
        Expect.That(made.RequestCharge > 0 && made.ETag is not null && made.Headers.Session.StartsWith("0:-1#"), "charge, version and session token");
        await Expect.Refused(HttpStatusCode.Conflict, () => container.CreateItemAsync(new Thing("1", "a"), A));
        var read = (await container.ReadItemAsync<Thing>("1", A)).Resource;
        Expect.Equal("Zoë \u2603", read.name);
        Expect.Rows(["x", "y"], read.tags!);
        Expect.Equal(new Part("wheel", 1.25), read.part);
        Expect.Equal(2, (await container.ReplaceItemAsync(read with { n = 2 }, "1", A)).Resource.n);
        Expect.Equal(HttpStatusCode.OK, (await container.UpsertItemAsync(read with { n = 3 })).StatusCode);
        Expect.Equal(HttpStatusCode.Created, (await container.UpsertItemAsync(new Thing("2", "b"))).StatusCode);
        Expect.Equal(3, (await container.ReadItemAsync<Thing>("1", A)).Resource.n);
        Expect.Equal(HttpStatusCode.NoContent, (await container.DeleteItemAsync<Thing>("1", A)).StatusCode);
        await Expect.Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<Thing>("1", A));
        await Expect.Refused(HttpStatusCode.NotFound, () => container.DeleteItemAsync<Thing>("1", A));
        await Expect.Refused(HttpStatusCode.BadRequest, () => container.CreateItemAsync(new Thing("3", "a"), new PartitionKey("b")));
    }

    public async Task IdsAndValuesOfEveryKind()
    {
        var container = await NewContainer();
        foreach (var id in new[] { "with space", "ü", "a+b&c=d", "100%", "'quote'", "[x]", "emoji \U0001F600" })
        {
            await container.CreateItemAsync(new Thing(id, "a"), A);
            Expect.Equal(id, (await container.ReadItemAsync<Thing>(id, A)).Resource.id);
        }
        var text = """{"id":"v","pk":"a","big":9007199254740991,"neg":-0.5,"exp":1.5E+300,"t":true,"z":null,"o":{"a":[1,[2,{}]]},"s":"\"\\\u0001\u2028"}""";
        await container.CreateItemAsync(JObject.Parse(text), A);
        JObject read = await container.ReadItemAsync<JObject>("v", A);
        foreach (var (name, value) in JObject.Parse(text)) Expect.That(JToken.DeepEquals(value, read[name]), $"{name} as it was");
        foreach (var key in new (PartitionKey, object?)[] { (new(1.5), 1.5), (new(true), true), (PartitionKey.Null, null) })
        {
            await container.CreateItemAsync(new { id = "k", pk = key.Item2 }, key.Item1);
            Expect.Equal(HttpStatusCode.OK, (await container.ReadItemAsync<JObject>("k", key.Item1)).StatusCode);
        }
        await container.CreateItemAsync(new { id = "none" }, PartitionKey.None);
        Expect.Equal(HttpStatusCode.OK, (await container.ReadItemAsync<JObject>("none", PartitionKey.None)).StatusCode);
    }

    public async Task Streams()
    {
        var container = await NewContainer();
        using var body = new MemoryStream("""{"id":"1","pk":"a","n":5}"""u8.ToArray());
        using (var made = await container.CreateItemStreamAsync(body, A)) Expect.Equal(HttpStatusCode.Created, made.StatusCode);
        using (var read = await container.ReadItemStreamAsync("1", A))
        {
            using var reader = new StreamReader(read.Content);
            Expect.Equal(5, (int)JObject.Parse(await reader.ReadToEndAsync())["n"]!);
        }
        using var missing = await container.ReadItemStreamAsync("2", A);
        Expect.Equal(HttpStatusCode.NotFound, missing.StatusCode);
        var quiet = new ItemRequestOptions { EnableContentResponseOnWrite = false };
        Expect.Equal(null, (await container.UpsertItemAsync(new Thing("1", "a"), A, quiet)).Resource);
    }

    public async Task ConditionsOnVersions()
    {
        var container = await NewContainer();
        var first = await container.CreateItemAsync(new Thing("1", "a", 1), A);
        var second = await container.ReplaceItemAsync(new Thing("1", "a", 2), "1", A, new ItemRequestOptions { IfMatchEtag = first.ETag });
        var stale = new ItemRequestOptions { IfMatchEtag = first.ETag };
        await Expect.Refused(HttpStatusCode.PreconditionFailed, () => container.ReplaceItemAsync(new Thing("1", "a", 3), "1", A, stale));
        await Expect.Refused(HttpStatusCode.PreconditionFailed, () => container.UpsertItemAsync(new Thing("1", "a", 3), A, stale));
        await Expect.Refused(HttpStatusCode.PreconditionFailed, () => container.DeleteItemAsync<Thing>("1", A, stale));
        var known = new ItemRequestOptions { IfNoneMatchEtag = second.ETag };
        using var unchanged = await container.ReadItemStreamAsync("1", A, known);
        Expect.Equal(HttpStatusCode.NotModified, unchanged.StatusCode);
        Expect.Equal(2, (await container.ReadItemAsync<Thing>("1", A, new ItemRequestOptions { IfNoneMatchEtag = first.ETag })).Resource.n);
    }

    public async Task Patch()
    {
        var container = await NewContainer();
        await container.CreateItemAsync(new Thing("1", "a", 1, "ann", ["x"], new Part("wheel", 1)), A);
        Thing patched = await container.PatchItemAsync<Thing>("1", A,
        [
            PatchOperation.Increment("/n", 4),
            PatchOperation.Set("/part/weight", 2.5),
            PatchOperation.Add("/tags/-", "y"),
            PatchOperation.Replace("/name", "bob"),
        ]);
        Expect.Equal((5, 2.5, "bob"), (patched.n, patched.part!.weight, patched.name));
        Expect.Rows(["x", "y"], patched.tags!);
        patched = await container.PatchItemAsync<Thing>("1", A, [PatchOperation.Remove("/part"), PatchOperation.Move("/name", "/was")]);
        Expect.Equal((null, null), (patched.part, patched.name));
        var only = new PatchItemRequestOptions { FilterPredicate = "FROM c WHERE c.n > 100" };
        await Expect.Refused(HttpStatusCode.PreconditionFailed, () => container.PatchItemAsync<Thing>("1", A, [PatchOperation.Set("/n", 0)], only));
        await Expect.Refused(HttpStatusCode.BadRequest, () => container.PatchItemAsync<Thing>("1", A, [PatchOperation.Increment("/was", 1)]));
        await Expect.Refused(HttpStatusCode.NotFound, () => container.PatchItemAsync<Thing>("2", A, [PatchOperation.Set("/n", 0)]));
    }

    public async Task ReadMany()
    {
        var container = await NewContainer(SeveralRanges);
        foreach (int n in Enumerable.Range(0, 40)) await container.CreateItemAsync(new Thing($"{n}", $"p{n}", n));
        var wanted = Enumerable.Range(10, 25).Select(n => ($"{n}", new PartitionKey($"p{n}"))).Append(("99", new PartitionKey("p99"))).ToList();
        var found = await container.ReadManyItemsAsync<Thing>(wanted);
        Expect.Rows(Enumerable.Range(10, 25), found.Select(thing => thing.n).Order());
        Expect.That(found.RequestCharge > 0, "a charge");
    }

    public async Task ASessionGoesOnInAnotherClient()
    {
        var container = await NewContainer(SeveralRanges);
        var written = await container.UpsertItemAsync(new Thing("1", "a", 7), A);
        var other = Connect().GetContainer(Database.Id, container.Id);
        var read = await other.ReadItemAsync<Thing>("1", A, new ItemRequestOptions { SessionToken = written.Headers.Session });
        Expect.Equal(7, read.Resource.n);
        var parts = written.Headers.Session.Split('#');
        var ahead = new ItemRequestOptions { SessionToken = $"{parts[0]}#{long.Parse(parts[1]) + 1_000_000}" };
        await Expect.Refused(HttpStatusCode.NotFound, () => other.ReadItemAsync<Thing>("1", A, ahead), substatus: 1002);
    }

    public async Task AllItemsOfAPartitionKeyAreDeleted()
    {
        var container = await NewContainer();
        foreach (int n in Enumerable.Range(0, 10)) await container.CreateItemAsync(new Thing($"{n}", n < 6 ? "a" : "b", n));
        using var answer = await container.DeleteAllItemsByPartitionKeyStreamAsync(A);
        Expect.Equal(HttpStatusCode.OK, answer.StatusCode);
        Expect.Rows([4], await container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c").All());
    }

    /// <summary>The server takes the rest of such a request, so that its answer is read and not a reset.</summary>
    public async Task WhatIsFarTooLargeIsRefusedByItsStatus()
    {
        var container = await NewContainer();
        foreach (int bytes in new[] { 5_000_000, 50_000_000 })
        {
            var item = new Thing("1", "a", name: new string('x', bytes));
            await Expect.Refused(HttpStatusCode.RequestEntityTooLarge, () => container.CreateItemAsync(item, new PartitionKey("a")));
        }
        Expect.Equal(0, (await container.GetItemQueryIterator<Thing>("SELECT * FROM c").All()).Count);
    }
}
