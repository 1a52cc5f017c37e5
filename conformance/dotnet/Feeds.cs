// Microsoft.Azure.Cosmos (version 3): feed ranges and the change feed.

using Microsoft.Azure.Cosmos;

namespace Planisphere.Conformance;

public sealed class Feeds : CosmosSuite
{
    const int Count = 40;

    async Task<Container> Filled()
    {
        var container = await NewContainer(SeveralRanges);
        foreach (int n in Enumerable.Range(0, Count)) await container.CreateItemAsync(new Thing($"{n}", $"p{n}", n));
        return container;
    }

    static async Task<(List<Thing> Changes, string Token)> Drain(FeedIterator<Thing> feed)
    {
        List<Thing> changes = [];
        while (feed.HasMoreResults)
        {
            var page = await feed.ReadNextAsync();
            if (page.StatusCode == System.Net.HttpStatusCode.NotModified) return (changes, page.ContinuationToken);
            changes.AddRange(page);
        }
        throw new ExpectationException("a change feed has no end");
    }

    public async Task RangesTogetherAreTheContainer()
    {
        var container = await Filled();
        var ranges = await container.GetFeedRangesAsync();
        Expect.That(ranges.Count > 1, "several ranges");
        List<int> found = [];
        foreach (var range in ranges)
        {
            // As text and back, as programs hand them to their workers.
            var same = FeedRange.FromJsonString(range.ToJsonString());
            found.AddRange(await container.GetItemQueryIterator<int>(same, new QueryDefinition("SELECT VALUE c.n FROM c")).All());
        }
        Expect.Rows(Enumerable.Range(0, Count), found.Order());
        Expect.Equal(Count, (await container.GetItemQueryIterator<Thing>().All()).Count);
    }

    public async Task ChangesFromTheBeginningAndOn()
    {
        var container = await Filled();
        var options = new ChangeFeedRequestOptions { PageSizeHint = 6 };
        using var feed = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.Beginning(), ChangeFeedMode.LatestVersion, options);
        var (changes, token) = await Drain(feed);
        Expect.Rows(Enumerable.Range(0, Count), changes.Select(thing => thing.n).Order());
        await container.UpsertItemAsync(new Thing("3", "p3", 1003));
        await container.UpsertItemAsync(new Thing("30", "p30", 1030));
        using var later = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.ContinuationToken(token), ChangeFeedMode.LatestVersion);
        Expect.Rows([1003, 1030], (await Drain(later)).Changes.Select(thing => thing.n).Order());
    }

    public async Task ChangesOfARangeOfAKeyAndFromNow()
    {
        var container = await Filled();
        using var now = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.Now(), ChangeFeedMode.LatestVersion);
        var (none, token) = await Drain(now);
        Expect.Equal(0, none.Count);
        var key = FeedRange.FromPartitionKey(new PartitionKey("p5"));
        using var ofKey = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.Beginning(key), ChangeFeedMode.LatestVersion);
        Expect.Rows([5], (await Drain(ofKey)).Changes.Select(thing => thing.n));
        List<int> found = [];
        foreach (var range in await container.GetFeedRangesAsync())
        {
            using var feed = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.Beginning(range), ChangeFeedMode.LatestVersion);
            found.AddRange((await Drain(feed)).Changes.Select(thing => thing.n));
        }
        Expect.Rows(Enumerable.Range(0, Count), found.Order());
        await container.UpsertItemAsync(new Thing("new", "p0", -1));
        using var since = container.GetChangeFeedIterator<Thing>(ChangeFeedStartFrom.ContinuationToken(token), ChangeFeedMode.LatestVersion);
        Expect.Rows([-1], (await Drain(since)).Changes.Select(thing => thing.n));
    }

    public async Task AProcessorSeesEveryChange()
    {
        var container = await Filled();
        Container leases = await Database.CreateContainerAsync(NewId("leases"), "/id");
        var seen = new System.Collections.Concurrent.ConcurrentDictionary<int, bool>();
        var all = new TaskCompletionSource();
        var processor = container
            .GetChangeFeedProcessorBuilder<Thing>("tour", (ChangeFeedProcessorContext _, IReadOnlyCollection<Thing> changes, CancellationToken _) =>
            {
                foreach (var change in changes) seen[change.n] = true;
                if (seen.Count == Count + 1) all.TrySetResult();
                return Task.CompletedTask;
            })
            .WithInstanceName("one")
            .WithLeaseContainer(leases)
            .WithPollInterval(TimeSpan.FromMilliseconds(100))
            .WithStartTime(DateTime.MinValue.ToUniversalTime())
            .Build();
        await processor.StartAsync();
        await container.UpsertItemAsync(new Thing("late", "p1", 999));
        await all.Task.WaitAsync(TimeSpan.FromSeconds(30));
        await processor.StopAsync();
    }
}
