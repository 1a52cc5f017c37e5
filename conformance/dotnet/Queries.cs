// Microsoft.Azure.Cosmos (version 3): SQL and LINQ, within a partition and across them.

using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Linq;

namespace Planisphere.Conformance;

public sealed class Queries : CosmosSuite
{
    const int Count = 60;
    Container things = null!;

    public override async Task Open(Server server, string transport)
    {
        await base.Open(server, transport);
        things = await NewContainer(SeveralRanges, properties =>
        {
            var order = new System.Collections.ObjectModel.Collection<CompositePath>
            {
                new() { Path = "/name" },
                new() { Path = "/n", Order = CompositePathSortOrder.Descending },
            };
            properties.IndexingPolicy.CompositeIndexes.Add(order);
        });
        foreach (int n in Enumerable.Range(0, Count)) await things.CreateItemAsync(Thing(n));
    }

    static Thing Thing(int n) => new($"{n}", $"p{n % 11}", n, $"name{n % 3}", [$"t{n % 2}", "all"], new Part(n % 2 == 0 ? "even" : "odd", n / 4.0));

    async Task<List<T>> Sql<T>(string text, QueryRequestOptions? options = null) =>
        await things.GetItemQueryIterator<T>(text, requestOptions: options).All();

    static async Task<List<T>> Linq<T>(IQueryable<T> query) => await query.ToFeedIterator().All();

    IOrderedQueryable<Thing> AllThings => things.GetItemLinqQueryable<Thing>(linqSerializerOptions: new CosmosLinqSerializerOptions());

    public async Task PagesOfOnePartition()
    {
        var options = new QueryRequestOptions { PartitionKey = new PartitionKey("p3"), MaxItemCount = 2 };
        List<int> found = [];
        string? token = null;
        int pages = 0;
        do
        {
            // A new iterator each time, as a web page's next request has one.
            using var feed = things.GetItemQueryIterator<int>("SELECT VALUE c.n FROM c", token, options);
            var page = await feed.ReadNextAsync();
            Expect.That(page.Count <= 2, "no more than was asked for");
            found.AddRange(page);
            token = page.ContinuationToken;
            pages++;
        }
        while (token is not null);
        Expect.Rows(Enumerable.Range(0, Count).Where(n => n % 11 == 3), found.Order());
        Expect.That(pages >= 3, "several pages");
    }

    public async Task OrderOfCreation()
    {
        string[] ids = ["z", "a", "m", "q", "b", "y", "c", "x", "d", "w"];
        var container = await NewContainer();
        foreach (var (n, id) in ids.Index()) await container.CreateItemAsync(new Thing(id, $"p{n * 5 % 7}", n % 2, $"g{n * 2 % 3}"));
        foreach (int size in new[] { 1, 3, 100 })
        {
            var options = new QueryRequestOptions { MaxItemCount = size };
            async Task<List<string>> rows(string text) =>
                await container.GetItemQueryIterator<string>(text, requestOptions: options).All();
            Expect.Rows(ids, await rows("SELECT VALUE c.id FROM c"));
            Expect.Rows(ids, (await container.GetItemQueryIterator<Thing>(requestOptions: options).All()).Select(thing => thing.id));
            Expect.Rows(ids[..4], await rows("SELECT TOP 4 VALUE c.id FROM c"));
            Expect.Rows(["g0", "g2", "g1"], await rows("SELECT DISTINCT VALUE c.name FROM c"));
            Expect.Rows(["g0", "g2", "g1"], await rows("SELECT VALUE c.name FROM c GROUP BY c.name"));
            var rising = ids.Index().OrderBy(pair => pair.Index % 2).Select(pair => pair.Item).ToList();
            Expect.Rows(rising, await rows("SELECT VALUE c.id FROM c ORDER BY c.n"));
            rising.Reverse();
            Expect.Rows(rising, await rows("SELECT VALUE c.id FROM c ORDER BY c.n DESC"));
            // A new iterator for each page, which begins among equal sort keys.
            List<string> resumed = [];
            string? token = null;
            do
            {
                using var feed = container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c ORDER BY c.n DESC", token, options);
                var page = await feed.ReadNextAsync();
                resumed.AddRange(page);
                token = page.ContinuationToken;
            }
            while (token is not null);
            Expect.Rows(rising, resumed);
        }
    }

    public async Task PagesAcrossPartitionsInOrder()
    {
        var options = new QueryRequestOptions { MaxItemCount = 7, MaxConcurrency = 4, MaxBufferedItemCount = 50 };
        List<int> found = [];
        string? token = null;
        do
        {
            using var feed = things.GetItemQueryIterator<int>("SELECT VALUE c.n FROM c ORDER BY c.n DESC", token, options);
            var page = await feed.ReadNextAsync();
            found.AddRange(page);
            token = page.ContinuationToken;
        }
        while (token is not null);
        Expect.Rows(Enumerable.Range(0, Count).Reverse(), found);
    }

    public async Task OrderByTwoProperties()
    {
        var found = await Sql<Thing>("SELECT * FROM c ORDER BY c.name, c.n DESC", new QueryRequestOptions { MaxItemCount = 8 });
        var expected = Enumerable.Range(0, Count).Select(Thing).OrderBy(thing => thing.name, StringComparer.Ordinal).ThenByDescending(thing => thing.n);
        Expect.Rows(expected.Select(thing => thing.id), found.Select(thing => thing.id));
    }

    public async Task ParametersAndConditions()
    {
        var query = new QueryDefinition("SELECT VALUE c.n FROM c WHERE c.part.kind = @kind AND c.n BETWEEN @low AND @high")
            .WithParameter("@kind", "odd").WithParameter("@low", 10).WithParameter("@high", 20);
        Expect.Rows([11, 13, 15, 17, 19], (await things.GetItemQueryIterator<int>(query).All()).Order());
        Expect.Equal(20, (await Sql<int>("SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(c.tags, 't1') AND STARTSWITH(c.id, '1') OR c.n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 20, 22, 24, 26, 28)")).Count);
        Expect.Rows(["p0", "p1"], (await Sql<string>("SELECT DISTINCT VALUE c.pk FROM c JOIN t IN c.tags WHERE t = 'all' AND c.pk < 'p10'")).Order());
        await Expect.Refused(HttpStatusCode.BadRequest, () => Sql<int>("SELECT VALUE c.n FRM c"));
    }

    public async Task AggregatesGroupsAndDistinctValues()
    {
        Expect.Rows([Count], await Sql<int>("SELECT VALUE COUNT(1) FROM c"));
        Expect.Rows([Count * (Count - 1) / 2], await Sql<int>("SELECT VALUE SUM(c.n) FROM c"));
        Expect.Rows([29.5], await Sql<double>("SELECT VALUE AVG(c.n) FROM c"));
        Expect.Rows([0], await Sql<int>("SELECT VALUE MIN(c.n) FROM c"));
        Expect.Rows([59], await Sql<int>("SELECT VALUE MAX(c.n) FROM c"));
        Expect.Rows(["name0", "name1", "name2"], (await Sql<string>("SELECT DISTINCT VALUE c.name FROM c")).Order());
        Expect.Rows(["name0", "name1", "name2"], await Sql<string>("SELECT DISTINCT VALUE c.name FROM c ORDER BY c.name"));
        var groups = await Sql<Group>("SELECT c.name, COUNT(1) AS count, MAX(c.n) AS last FROM c GROUP BY c.name");
        Expect.Rows(
            [new Group("name0", 20, 57), new Group("name1", 20, 58), new Group("name2", 20, 59)],
            groups.OrderBy(group => group.name, StringComparer.Ordinal));
        Expect.Rows([3], await Sql<int>("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.name FROM c)"));
    }

    sealed record Group(string name, int count, int last);

    public async Task TopOffsetAndLimit()
    {
        Expect.Rows([0, 1, 2, 3, 4], await Sql<int>("SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n"));
        Expect.Rows([12, 13, 14], await Sql<int>("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 12 LIMIT 3"));
        Expect.Equal(9, (await Sql<int>("SELECT TOP 9 VALUE c.n FROM c")).Count);
    }

    public async Task LinqByKeyAndAcrossKeys()
    {
        var options = new QueryRequestOptions { PartitionKey = new PartitionKey("p5") };
        var ofKey = things.GetItemLinqQueryable<Thing>(requestOptions: options).Where(thing => thing.n > 20).Select(thing => thing.n);
        Expect.Rows([27, 38, 49], (await Linq(ofKey)).Order());
        var across = AllThings.Where(thing => thing.part!.kind == "even" && thing.tags!.Contains("t0") && thing.name!.EndsWith("1"));
        Expect.Rows([4, 10, 16, 22, 28, 34, 40, 46, 52, 58], (await Linq(across)).Select(thing => thing.n).Order());
        var projected = AllThings.Where(thing => thing.id == "7").Select(thing => new { thing.name, Heavy = thing.part!.weight * 4 });
        Expect.Equal(("name1", 7.0), (await Linq(projected)).Select(one => (one.name!, one.Heavy)).Single());
        Expect.Rows(["all", "t1"], (await Linq(AllThings.Where(thing => thing.id == "7").SelectMany(thing => thing.tags!))).Order());
    }

    public async Task LinqOrderedAndPaged()
    {
        var ordered = AllThings.Where(thing => thing.n < 20).OrderByDescending(thing => thing.n).Skip(3).Take(4).Select(thing => thing.n);
        Expect.Rows([16, 15, 14, 13], await Linq(ordered));
        var two = AllThings.OrderBy(thing => thing.name).ThenByDescending(thing => thing.n).Take(3).Select(thing => thing.n);
        Expect.Rows([57, 54, 51], await Linq(two));
    }

    public async Task LinqAggregates()
    {
        Expect.Equal(Count, (await AllThings.CountAsync()).Resource);
        Expect.Equal(20, (await AllThings.Where(thing => thing.name == "name2").CountAsync()).Resource);
        Expect.Equal(Count * (Count - 1) / 2, (await AllThings.Select(thing => thing.n).SumAsync()).Resource);
        Expect.Equal(14.75, (await AllThings.Select(thing => thing.part!.weight).MaxAsync()).Resource);
        Expect.Equal(29.5, (await AllThings.Select(thing => thing.n).AverageAsync()).Resource);
        Expect.Equal(3, (await Linq(AllThings.Select(thing => thing.name).Distinct())).Count);
    }

    public async Task LinqOverDictionaries()
    {
        var container = await NewContainer();
        await container.CreateItemAsync(new Box("1", "a", new() { ["red"] = 1, ["blue"] = 5 }));
        await container.CreateItemAsync(new Box("2", "a", new() { ["green"] = 2 }));
        var boxes = container.GetItemLinqQueryable<Box>(linqSerializerOptions: new CosmosLinqSerializerOptions());
        Expect.Rows(["1"], await Linq(boxes.Where(box => box.counts.Any(one => one.Value > 4)).Select(box => box.id)));
        Expect.Rows([5, 2], (await Linq(boxes.SelectMany(box => box.counts.Where(one => one.Value > 1)).Select(one => one.Value))).OrderDescending());
        Expect.Rows([2], await Linq(boxes.Where(box => box.id == "1").Select(box => box.counts.Count(one => one.Value > 0))));
    }

    sealed record Box(string id, string pk, Dictionary<string, int> counts);

    public async Task PagesInTheOrderOfLongKeys()
    {
        var container = await NewContainer(SeveralRanges, properties => properties.IndexingPolicy.CompositeIndexes.Add(
            new System.Collections.ObjectModel.Collection<CompositePath> { new() { Path = "/name" }, new() { Path = "/pk" } }));
        // Together longer than what a token keeps of them.
        string Long(int n) => new string('k', 400) + n;
        foreach (int n in Enumerable.Range(0, 9)) await container.CreateItemAsync(new Thing($"{n}", Long(n), n, Long(n / 2)));
        List<int> found = [];
        string? token = null;
        do
        {
            using var feed = container.GetItemQueryIterator<int>(
                "SELECT VALUE c.n FROM c ORDER BY c.name, c.pk", token, new QueryRequestOptions { MaxItemCount = 2 });
            var page = await feed.ReadNextAsync();
            found.AddRange(page);
            token = page.ContinuationToken;
        }
        while (token is not null && found.Count < 20);
        Expect.Rows(Enumerable.Range(0, 9), found);
    }

    public async Task MetricsOfAQuery()
    {
        var options = new QueryRequestOptions { PartitionKey = new PartitionKey("p1"), PopulateIndexMetrics = true };
        using var feed = things.GetItemQueryIterator<Thing>("SELECT * FROM c WHERE c.n > 5", requestOptions: options);
        var page = await feed.ReadNextAsync();
        Expect.That(page.RequestCharge > 0 && page.Count > 0, "rows and their charge");
        Expect.That(page.Diagnostics.GetQueryMetrics() is not null, "query metrics");
    }
}
