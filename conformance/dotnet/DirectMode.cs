// Direct mode of Microsoft.Azure.Cosmos (version 3): what only its clients see.

using System.Net;
using Microsoft.Azure.Cosmos;

namespace Planisphere.Conformance;

public sealed class DirectMode : CosmosSuite
{
    static readonly PartitionKey A = new("a");

    public override string[] Transports => [Direct];

    /// <summary>Every level reads what was written, and each read is one frame: a read of several costs more.</summary>
    public async Task EveryLevelOfConsistency()
    {
        foreach (var (argument, name) in new[]
        {
            ("strong", "Strong"), ("bounded-staleness", "BoundedStaleness"), ("session", "Session"),
            ("consistent-prefix", "ConsistentPrefix"), ("eventual", "Eventual"),
        })
        {
            using var server = new Server("--consistency", argument);
            var client = Connect(server: server);
            var level = (await client.ReadAccountAsync()).Consistency.DefaultConsistencyLevel;
            Expect.Equal(name, level.ToString());
            Database database = await client.CreateDatabaseAsync("d");
            Container container = await database.CreateContainerAsync(new ContainerProperties("c", "/pk"));
            for (int n = 0; n < 20; n++)
            {
                await container.UpsertItemAsync(new Thing("1", "a", n), A);
                var read = await container.ReadItemAsync<Thing>("1", A);
                Expect.Equal((n, 1.0), (read.Resource.n, read.RequestCharge));
            }
            await Expect.Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<Thing>("2", A));
            await Expect.Refused(HttpStatusCode.Conflict, () => container.CreateItemAsync(new Thing("1", "a"), A));
            Expect.Equal(1, (await container.GetItemQueryIterator<Thing>("SELECT * FROM c").All()).Count);
            // By their numbers, levels get weaker up to the third, and prefixes are better than nothing.
            for (var weaker = level + 1; name != "Eventual" && (int)weaker <= 4; weaker++)
            {
                var options = new ItemRequestOptions { ConsistencyLevel = weaker };
                Expect.Equal(19, (await container.ReadItemAsync<Thing>("1", A, options)).Resource.n);
            }
        }
    }

    public async Task AContainerMadeAgainByAnotherClient()
    {
        var container = await NewContainer();
        await container.CreateItemAsync(new Thing("1", "a", 1), A);
        var other = Connect().GetDatabase(Database.Id);
        await other.GetContainer(container.Id).DeleteContainerAsync();
        Container again = await other.CreateContainerAsync(new ContainerProperties(container.Id, "/pk"));
        await again.CreateItemAsync(new Thing("1", "a", 2), A);
        Expect.Equal(2, (await container.ReadItemAsync<Thing>("1", A)).Resource.n);
        await again.DeleteContainerAsync();
        await Expect.Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<Thing>("1", A));
    }

    public async Task ManyRequestsAtOnce()
    {
        var container = await NewContainer(SeveralRanges);
        await Task.WhenAll(Enumerable.Range(0, 1_000).Select(n =>
            container.CreateItemAsync(new Thing($"{n}", $"k{n % 50}", n), new PartitionKey($"k{n % 50}"))));
        var read = await Task.WhenAll(Enumerable.Range(0, 1_000).Select(n =>
            container.ReadItemAsync<Thing>($"{n}", new PartitionKey($"k{n % 50}"))));
        Expect.Rows(Enumerable.Range(0, 1_000), read.Select(one => one.Resource.n));
    }

    public async Task LargeItems()
    {
        var container = await NewContainer();
        var large = new Thing("1", "a", 1, new string('x', 1_900_000));
        await container.UpsertItemAsync(large, A);
        Expect.Equal(large.name, (await container.ReadItemAsync<Thing>("1", A)).Resource.name);
        await Expect.Refused(HttpStatusCode.RequestEntityTooLarge,
            () => container.UpsertItemAsync(large with { name = new string('x', 2_200_000) }, A));
    }
}
