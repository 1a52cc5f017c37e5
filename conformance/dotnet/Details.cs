// Microsoft.Azure.Cosmos (version 3): what its users read of answers beside their bodies.

using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Scripts;
using Newtonsoft.Json.Linq;

namespace Planisphere.Conformance;

public sealed class Details : CosmosSuite
{
    static readonly PartitionKey A = new("a");

    public async Task EveryAnswerSaysWhatTheContainerHolds()
    {
        var container = await NewContainer();
        var made = await container.CreateItemAsync(new Thing("1", "a", 1), A);
        var script = await container.Scripts.CreateUserDefinedFunctionAsync(new UserDefinedFunctionProperties { Id = "f", Body = "function () {}" });
        foreach (var headers in new[] { made.Headers, (await container.ReadItemAsync<Thing>("1", A)).Headers, script.Headers })
        {
            Expect.That(headers["x-ms-resource-quota"].Contains("documentsCount=-1;"), "a quota");
            Expect.That(headers["x-ms-resource-usage"].Contains("documentsCount="), "what is used of it");
        }
    }

    public async Task ReplacingWhatIsNotThereIsNotFound()
    {
        var container = await NewContainer();
        await Expect.Refused(HttpStatusCode.NotFound, () => container.ReplaceItemAsync(new Thing("2", "b"), "1", A));
    }

    public async Task IdsWithBackslashes()
    {
        var container = await NewContainer();
        var made = await container.CreateItemAsync(new Thing(@"a\b", "a"), A);
        Expect.Equal(@"a\b", made.Resource.id);
        Expect.Rows([@"a\b"], await container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c").All());
    }

    public async Task TriggersOfUpserts()
    {
        var container = await NewContainer();
        const string body = "function () { const r = getContext().getRequest(); r.setBody({ ...r.getBody(), n: 7 }); }";
        var trigger = new TriggerProperties { Id = "t", Body = body, TriggerType = TriggerType.Pre, TriggerOperation = TriggerOperation.Upsert };
        Expect.Equal(TriggerOperation.Upsert, (await container.Scripts.CreateTriggerAsync(trigger)).Resource.TriggerOperation);
        var options = new ItemRequestOptions { PreTriggers = ["t"] };
        Expect.Equal(7, (await container.UpsertItemAsync(new Thing("1", "a"), A, options)).Resource.n);
        await Expect.Refused(HttpStatusCode.BadRequest, () => container.CreateItemAsync(new Thing("2", "a"), A, options));
    }

    public async Task OffersSayWhetherTheyAreBeingReplaced()
    {
        var container = await NewContainer();
        var read = await container.ReadThroughputAsync(new RequestOptions());
        Expect.Equal(false, read.IsReplacePending);
        Expect.Equal(false, (await container.ReplaceThroughputAsync(ThroughputProperties.CreateManualThroughput(500))).IsReplacePending);
    }

    public async Task IndexAndQueryMetrics()
    {
        var container = await NewContainer();
        await container.CreateItemAsync(new Thing("1", "a", 1), A);
        var options = new QueryRequestOptions { PartitionKey = A, PopulateIndexMetrics = true };
        var page = await container.GetItemQueryIterator<Thing>("SELECT * FROM c WHERE c.name = 'x' AND c.n > 0", requestOptions: options).ReadNextAsync();
        Expect.That(page.IndexMetrics.Contains("/n/?") && page.IndexMetrics.Contains("/name/?"), "the paths of both conditions");
        var all = await container.GetItemQueryIterator<Thing>("SELECT * FROM c", requestOptions: new() { PartitionKey = A }).ReadNextAsync();
        var metrics = all.Diagnostics.GetQueryMetrics().CumulativeMetrics;
        Expect.That(metrics.DocumentLoadTime > TimeSpan.Zero && metrics.RuntimeExecutionTime > TimeSpan.Zero && metrics.QueryPreparationTime > TimeSpan.Zero, "times of what was done");
    }

    public async Task DeletesHaveTheirItem()
    {
        var properties = new ContainerProperties(NewId("c"), "/pk");
        properties.ChangeFeedPolicy.FullFidelityRetention = TimeSpan.FromMinutes(5);
        Container container = await Database.CreateContainerAsync(properties);
        var from = container.GetChangeFeedIterator<ChangeFeedItem<JObject>>(ChangeFeedStartFrom.Now(), ChangeFeedMode.AllVersionsAndDeletes);
        var token = (await from.ReadNextAsync()).ContinuationToken;
        await container.CreateItemAsync(new Thing("1", "a", 4), A);
        await container.DeleteItemAsync<Thing>("1", A);
        var feed = container.GetChangeFeedIterator<ChangeFeedItem<JObject>>(ChangeFeedStartFrom.ContinuationToken(token), ChangeFeedMode.AllVersionsAndDeletes);
        var changes = (await feed.ReadNextAsync()).ToList();
        Expect.Equal((2, null), (changes.Count, changes[0].Previous));
        Expect.Equal(4, (int)changes[1].Previous["n"]!);
    }

    public async Task ListsAndSetsAreMerged()
    {
        var container = await NewContainer(SeveralRanges);
        foreach (int n in Enumerable.Range(0, 6)) await container.CreateItemAsync(new Thing($"{n}", $"p{n}", n % 2));
        var sets = await container.GetItemQueryIterator<JArray>("SELECT VALUE MAKESET(c.n) FROM c").All();
        Expect.Rows([0, 1], sets.Single().Select(one => (int)one).Order());
        var lists = await container.GetItemQueryIterator<JArray>("SELECT VALUE MAKELIST(c.n) FROM c").All();
        Expect.Equal(6, lists.Single().Count);
    }

    public async Task OrderOverAQuery()
    {
        var container = await NewContainer(SeveralRanges);
        foreach (int n in Enumerable.Range(0, 6)) await container.CreateItemAsync(new Thing($"{n}", $"p{n}", n));
        var rows = container.GetItemQueryIterator<int>("SELECT VALUE s.n FROM (SELECT * FROM root c WHERE c.n > 1) s ORDER BY s.n DESC OFFSET 1 LIMIT 2");
        Expect.Rows([4, 3], await rows.All());
    }
}
