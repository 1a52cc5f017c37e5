// Direct mode of Microsoft.Azure.Cosmos (version 3): what only its clients see.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Text;
using System.Text.Json;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

namespace Planisphere.Conformance;

public sealed class DirectMode : CosmosSuite
{
    static readonly PartitionKey A = new("a");

    public override string[] Transports => [Direct];
    public override TimeSpan Patience => TimeSpan.FromMinutes(5);

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

    /// <summary>Two splits and a merge: no error reaches the program, nothing is lost, no operation takes long.</summary>
    public async Task SplitsAndAMergeUnderLoad()
    {
        const int operations = 20_000, workers = 8;
        using var server = new Server("--throttling", "off");
        var client = Connect(server: server);
        Database database = await client.CreateDatabaseAsync("d");
        Container container = await database.CreateContainerAsync(new ContainerProperties("c", "/pk"));
        var written = new ConcurrentDictionary<string, int>();
        int done = 0;
        var worst = TimeSpan.Zero;
        var report = new object();
        async Task Work(int worker)
        {
            var dice = new Random(worker);
            while (Interlocked.Increment(ref done) is var number && number <= operations)
            {
                string key = $"w{worker}-{dice.Next(40)}";
                var watch = Stopwatch.StartNew();
                switch (number % 50)
                {
                    case 0:
                        var query = new QueryDefinition("SELECT VALUE COUNT(1) FROM c WHERE c.pk = @k").WithParameter("@k", key);
                        int count = (await container.GetItemQueryIterator<int>(query).All()).Single();
                        Expect.Equal(written.ContainsKey(key) ? 1 : 0, count);
                        break;
                    case < 25:
                        await container.UpsertItemAsync(new Thing("1", key, number), new PartitionKey(key));
                        written[key] = number;
                        break;
                    default:
                        if (!written.TryGetValue(key, out int expected)) break;
                        Expect.Equal(expected, (await container.ReadItemAsync<Thing>("1", new PartitionKey(key))).Resource.n);
                        break;
                }
                lock (report) worst = watch.Elapsed > worst ? watch.Elapsed : worst;
            }
        }
        async Task After(int operation)
        {
            while (Volatile.Read(ref done) < operation) await Task.Delay(10);
        }
        var load = Task.WhenAll(Enumerable.Range(0, workers).Select(worker => Task.Run(() => Work(worker))));
        foreach (var (operation, action, body) in new[]
        {
            (2_000, "0/split", """{"at":"median"}"""), (7_000, "merge", """{"ids":["1","2"]}"""), (13_000, "3/split", """{"at":"median"}"""),
        })
        {
            await Task.WhenAny(load, After(operation));
            await Repartition(server, $"containers/d/c/partitions/{action}", body);
        }
        await load;
        Expect.That(worst < TimeSpan.FromSeconds(2), $"less than two seconds for each operation, not {worst}");
        var items = await container.GetItemQueryIterator<Thing>("SELECT * FROM c").All();
        Expect.Rows(written.OrderBy(pair => pair.Key).Select(pair => (pair.Key, pair.Value)), items.OrderBy(item => item.pk).Select(item => (item.pk, item.n)));
        Expect.Equal(2, (await container.GetFeedRangesAsync()).Count);
    }

    static async Task Repartition(Server server, string action, string body)
    {
        using var http = new HttpClient { BaseAddress = new Uri(server.Endpoint("admin", "http"), "/_admin/v1/") };
        using var started = await http.PostAsync(action, new StringContent(body, Encoding.UTF8, "application/json"));
        string text = await started.Content.ReadAsStringAsync();
        Expect.That(started.IsSuccessStatusCode, text);
        var id = JObject.Parse(text)["id"];
        while (true)
        {
            string job = await http.GetStringAsync($"jobs/{id}");
            string phase = JObject.Parse(job)["phase"]!.ToString();
            if (phase == "succeeded") return;
            Expect.That(phase is ("preparing" or "swapping"), job);
            await Task.Delay(20);
        }
    }
}
