// Microsoft.Azure.Cosmos (version 3) with AllowBulkExecution: the SDK gathers operations by range.

using System.Net;
using System.Net.Http.Json;
using System.Text.Json;
using Microsoft.Azure.Cosmos;

namespace Planisphere.Conformance;

public sealed class Bulk : CosmosSuite
{
    static void Gather(CosmosClientOptions options) => options.AllowBulkExecution = true;

    /// <summary>The container as a client sees it that gathers operations.</summary>
    Container InBulk(Container container) => Connect(change: Gather).GetContainer(Database.Id, container.Id);

    static PartitionKey KeyOf(int n) => new($"p{n % 97}");
    static Thing ThingOf(int n, int version = 0) => new($"{n}", $"p{n % 97}", version);

    static async Task<List<HttpStatusCode>> Each(int count, Func<int, Task<HttpStatusCode>> work) =>
        [.. await Task.WhenAll(Enumerable.Range(0, count).Select(work))];

    static async Task<int> Count(Container container, string filter = "") =>
        (await container.GetItemQueryIterator<int>($"SELECT VALUE COUNT(1) FROM c {filter}").All()).Sum();

    public async Task HundredsOfOperationsOverSeveralRanges()
    {
        var container = await NewContainer(SeveralRanges);
        Expect.That((await container.GetFeedRangesAsync()).Count >= 3, "several ranges");
        var bulk = InBulk(container);
        const int many = 500;
        var made = await Each(many, async n => (await bulk.UpsertItemAsync(ThingOf(n), KeyOf(n))).StatusCode);
        Expect.That(made.All(status => status == HttpStatusCode.Created), "all are made");
        Expect.Equal(many, await Count(container));
        // Without a key argument the SDK takes the key from the item.
        var again = await Each(many, async n => (await bulk.UpsertItemAsync(ThingOf(n, n))).StatusCode);
        Expect.That(again.All(status => status == HttpStatusCode.OK), "all are there already");
        await Task.WhenAll(Enumerable.Range(0, many).Select(async n =>
        {
            var read = await bulk.ReadItemAsync<Thing>($"{n}", KeyOf(n));
            Expect.Equal(n, read.Resource.n);
            Expect.That(read.RequestCharge > 0 && read.Headers.Session is not null && read.ActivityId is not null && read.ETag is not null, "what every result has");
        }));
        await Task.WhenAll(Enumerable.Range(0, many).Select(async n =>
            Expect.Equal(n + 1, (await bulk.PatchItemAsync<Thing>($"{n}", KeyOf(n), [PatchOperation.Increment("/n", 1)])).Resource.n)));
        var gone = await Each(many / 2, async n => (await bulk.DeleteItemAsync<Thing>($"{2 * n}", KeyOf(2 * n))).StatusCode);
        Expect.That(gone.All(status => status == HttpStatusCode.NoContent), "half are deleted");
        Expect.Equal(many / 2, await Count(container));
    }

    public async Task EachOperationFailsAlone()
    {
        var container = await NewContainer();
        var first = await container.CreateItemAsync(ThingOf(1), KeyOf(1));
        var bulk = InBulk(container);
        var stale = new ItemRequestOptions { IfMatchEtag = "\"stale\"" };
        var known = new ItemRequestOptions { IfNoneMatchEtag = first.ETag };
        var never = new PatchItemRequestOptions { FilterPredicate = "from c where c.n = 99" };
        var quiet = new ItemRequestOptions { EnableContentResponseOnWrite = false };
        Task<CosmosException>[] refused =
        [
            Expect.Refused(HttpStatusCode.Conflict, () => bulk.CreateItemAsync(ThingOf(1), KeyOf(1))),
            Expect.Refused(HttpStatusCode.NotFound, () => bulk.ReadItemAsync<Thing>("none", KeyOf(1))),
            Expect.Refused(HttpStatusCode.PreconditionFailed, () => bulk.ReplaceItemAsync(ThingOf(1), "1", KeyOf(1), stale)),
            Expect.Refused(HttpStatusCode.PreconditionFailed, () => bulk.PatchItemAsync<Thing>("1", KeyOf(1), [PatchOperation.Set("/n", 1)], never), substatus: 1110),
            Expect.Refused(HttpStatusCode.BadRequest, () => bulk.CreateItemAsync(ThingOf(7), KeyOf(8))),
            Expect.Refused(HttpStatusCode.NotModified, () => bulk.ReadItemAsync<Thing>("1", KeyOf(1), known)),
        ];
        var fine = bulk.CreateItemAsync(ThingOf(2), KeyOf(2), quiet);
        var reasons = await Task.WhenAll(refused);
        Expect.That(reasons[0].Message.Contains("already exists"), reasons[0].Message);
        Expect.Equal(null, (await fine).Resource);
        Expect.That((await fine).ETag is not null, "its version");
        Expect.Equal(2, await Count(container));
    }

    public async Task LargeItemsGoAlone()
    {
        var container = await NewContainer();
        var bulk = InBulk(container);
        string text = new('x', 1_000_000);
        await Task.WhenAll(Enumerable.Range(0, 8).Select(n => bulk.CreateItemAsync(new Thing($"{n}", "a", name: text), new PartitionKey("a"))));
        // More than fits into one answer: the SDK asks again for what did not fit.
        var read = await Task.WhenAll(Enumerable.Range(0, 8).Select(n => bulk.ReadItemAsync<Thing>($"{n}", new PartitionKey("a"))));
        Expect.That(read.All(one => one.Resource.name!.Length == text.Length), "all are read");
        await Expect.Refused(HttpStatusCode.RequestEntityTooLarge, () => bulk.CreateItemAsync(new Thing("big", "a", name: text + text + text), new PartitionKey("a")));
    }

    public async Task BinaryItems()
    {
        const string setting = "AZURE_COSMOS_BINARY_ENCODING_ENABLED";
        Environment.SetEnvironmentVariable(setting, "true");
        try
        {
            var container = await NewContainer(SeveralRanges);
            var sent = new Sent(Server.Handler());
            var client = Connect(change: options =>
            {
                options.AllowBulkExecution = true;
                options.HttpClientFactory = () => new HttpClient(sent, disposeHandler: false);
            });
            var bulk = client.GetContainer(Database.Id, container.Id);
            await Task.WhenAll(Enumerable.Range(0, 100).Select(n => bulk.UpsertItemAsync(ThingOf(n, n) with { name = "Zoë", tags = ["x", "y"], part = new Part("wheel", 1.25) }, KeyOf(n))));
            // In Direct mode batches do not go by HTTP, where they could be seen.
            Expect.That(Transport == Direct || sent.Rows > 0 && sent.RowsWithText == 0, "no item went as text");
            await Task.WhenAll(Enumerable.Range(0, 100).Select(async n =>
            {
                Thing read = await bulk.ReadItemAsync<Thing>($"{n}", KeyOf(n));
                Expect.Equal((n, "Zoë", new Part("wheel", 1.25)), (read.n, read.name, read.part));
            }));
            using var batch = await container.CreateTransactionalBatch(KeyOf(1)).UpsertItem(ThingOf(1, 7)).ReadItem("1").ExecuteAsync();
            Expect.Equal(7, batch.GetOperationResultAtIndex<Thing>(1).Resource.n);
        }
        finally
        {
            Environment.SetEnvironmentVariable(setting, null);
        }
    }

    public async Task SplitsAndMergesGoUnnoticed()
    {
        var container = await NewContainer();
        var bulk = InBulk(container);
        var partitions = new Partitions(Server, Database.Id, container.Id);
        int version = 0;
        bool isOver = false;
        var written = Task.Run(async () =>
        {
            while (!Volatile.Read(ref isOver))
            {
                version++;
                await Task.WhenAll(Enumerable.Range(0, 40).Select(n => bulk.UpsertItemAsync(ThingOf(n, version), KeyOf(n))));
                using var batch = await container.CreateTransactionalBatch(KeyOf(1)).UpsertItem(ThingOf(1000, version) with { pk = "p1" }).ReadItem("1").ExecuteAsync();
                Expect.Equal(HttpStatusCode.OK, batch.StatusCode);
                Expect.Equal(version, batch.GetOperationResultAtIndex<Thing>(1).Resource.n);
                Expect.Equal(version, (await container.ReadItemAsync<Thing>("1", KeyOf(1))).Resource.n);
            }
        });
        foreach (var change in new Func<Task>[] { () => partitions.Split(), () => partitions.Split(), () => partitions.Merge(), () => partitions.Split(byHand: true) })
        {
            await Task.WhenAny(written, change());
            int seen = version;
            while (!written.IsCompleted && Volatile.Read(ref version) < seen + 2) await Task.Delay(5);
        }
        Volatile.Write(ref isOver, true);
        await written;
        Expect.Equal(40, await Count(container, $"WHERE c.n = {version} AND c.id != '1000'"));
    }

    public async Task ThrottledOperationsAreWaitedOut()
    {
        using var server = new Server("--throttling", "on");
        Database database = await Connect(server: server).CreateDatabaseAsync(NewId("db"));
        Container container = await database.CreateContainerAsync(NewId("c"), "/pk", 400);
        var bulk = Connect(change: Gather, server: server).GetContainer(database.Id, container.Id);
        // Of some 5 RU each, so that they need almost four seconds.
        var made = await Each(300, async n => (await bulk.CreateItemAsync(ThingOf(n), KeyOf(n))).StatusCode);
        Expect.That(made.All(status => status == HttpStatusCode.Created), "all are made");
        Expect.Equal(300, await Count(container));
    }
}

/// <summary>Counts the bodies that a client sends in HybridRow, and those of them with items as text.</summary>
sealed class Sent(HttpMessageHandler inner) : DelegatingHandler(inner)
{
    int rows, rowsWithText;
    public int Rows => rows;
    public int RowsWithText => rowsWithText;

    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellation)
    {
        if (request.Content is { } content && await content.ReadAsByteArrayAsync(cancellation) is [0x81, ..] body)
        {
            Interlocked.Increment(ref rows);
            if (body.AsSpan().IndexOf("\"id\":"u8) >= 0) Interlocked.Increment(ref rowsWithText);
        }
        return await base.SendAsync(request, cancellation);
    }
}

/// <summary>Splits and merges of a container through the admin API.</summary>
sealed class Partitions(Server server, string database, string container)
{
    readonly HttpClient http = new() { BaseAddress = new Uri(server.Endpoints.GetProperty("admin").GetString()!) };
    readonly string path = $"_admin/v1/containers/{database}/{container}/partitions";

    public async Task Split(bool byHand = false)
    {
        var id = (await Ids()).First();
        await Finish(await Post($"{path}/{id}/split", new { at = "midpoint", manual = byHand }), byHand);
    }

    public async Task Merge() => await Finish(await Post($"{path}/merge", new { ids = (await Ids()).Take(2) }), byHand: false);

    async Task<List<string>> Ids()
    {
        var shown = await http.GetFromJsonAsync<JsonElement>(path);
        return [.. shown.GetProperty("partitions").EnumerateArray().Select(one => one.GetProperty("id").GetString()!)];
    }

    /// <summary>Waits for the end of a job. One that is driven by hand stands between its steps for a while.</summary>
    async Task Finish(JsonElement job, bool byHand)
    {
        var url = $"_admin/v1/jobs/{job.GetProperty("id")}";
        if (byHand)
        {
            await Post($"{url}/advance", new { });
            await Task.Delay(300);
            await Post($"{url}/advance", new { });
        }
        string phase;
        do phase = (job = await http.GetFromJsonAsync<JsonElement>(url)).GetProperty("phase").GetString()!;
        while (phase is "preparing" or "swapping");
        Expect.Equal("succeeded", phase);
    }

    async Task<JsonElement> Post(string url, object body)
    {
        using var answer = await http.PostAsJsonAsync(url, body);
        Expect.That(answer.IsSuccessStatusCode, $"{url}: {answer.StatusCode}");
        return await answer.Content.ReadFromJsonAsync<JsonElement>();
    }
}
