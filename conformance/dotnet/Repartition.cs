// Microsoft.Azure.Cosmos (version 3) while partitions are split and merged, in Direct mode and in gateway mode.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

namespace Planisphere.Conformance;

public sealed class Repartition : CosmosSuite
{
    public override TimeSpan Patience => TimeSpan.FromMinutes(5);

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
            await Change(server, $"containers/d/c/partitions/{action}", body);
        }
        await load;
        Expect.That(worst < TimeSpan.FromSeconds(2), $"less than two seconds for each operation, not {worst}");
        var items = await container.GetItemQueryIterator<Thing>("SELECT * FROM c").All();
        Expect.Rows(written.OrderBy(pair => pair.Key).Select(pair => (pair.Key, pair.Value)), items.OrderBy(item => item.pk).Select(item => (item.pk, item.n)));
        Expect.Equal(2, (await container.GetFeedRangesAsync()).Count);
    }

    static async Task Change(Server server, string action, string body)
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
