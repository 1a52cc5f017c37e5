// Microsoft.Azure.Cosmos (version 3): databases, containers, throughput, scripts, permissions.

using System.Collections.ObjectModel;
using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Scripts;

namespace Planisphere.Conformance;

public sealed class Resources : CosmosSuite
{
    public async Task AccountIsRead()
    {
        var account = await Client.ReadAccountAsync();
        Expect.Equal(1, account.ReadableRegions.Count());
        Expect.Equal("Session", account.Consistency.DefaultConsistencyLevel.ToString());
    }

    public async Task AKeyOfAnotherAccountIsRefused()
    {
        var other = Convert.ToBase64String(new byte[64]);
        await Expect.Refused(HttpStatusCode.Unauthorized, () => Connect(other).GetDatabase("none").ReadAsync());
    }

    public async Task DatabasesAreMadeFoundAndDeleted()
    {
        string id = NewId("db");
        Expect.Equal(HttpStatusCode.Created, (await Client.CreateDatabaseIfNotExistsAsync(id)).StatusCode);
        Expect.Equal(HttpStatusCode.OK, (await Client.CreateDatabaseIfNotExistsAsync(id)).StatusCode);
        await Expect.Refused(HttpStatusCode.Conflict, () => Client.CreateDatabaseAsync(id));
        var all = await Client.GetDatabaseQueryIterator<DatabaseProperties>().All();
        Expect.That(all.Any(one => one.Id == id), "it is listed");
        var query = new QueryDefinition("SELECT * FROM c WHERE c.id = @id").WithParameter("@id", id);
        Expect.Rows([id], (await Client.GetDatabaseQueryIterator<DatabaseProperties>(query).All()).Select(one => one.Id));
        await Client.GetDatabase(id).DeleteAsync();
        await Expect.Refused(HttpStatusCode.NotFound, () => Client.GetDatabase(id).ReadAsync());
    }

    public async Task ContainersAreMadeReplacedFoundAndDeleted()
    {
        string id = NewId("c");
        var made = await Database.DefineContainer(id, "/pk")
            .WithDefaultTimeToLive(TimeSpan.FromHours(1))
            .WithIndexingPolicy()
                .WithIncludedPaths().Path("/*").Attach()
                .WithExcludedPaths().Path("/name/?").Attach()
                .WithCompositeIndex().Path("/n").Path("/name", CompositePathSortOrder.Descending).Attach()
                .Attach()
            .CreateAsync(1000);
        var read = (await made.Container.ReadContainerAsync()).Resource;
        Expect.Equal(3600, read.DefaultTimeToLive);
        Expect.Equal("/pk", read.PartitionKeyPath);
        Expect.Equal(1, read.IndexingPolicy.CompositeIndexes.Count);
        read.DefaultTimeToLive = null;
        Expect.Equal(null, (await made.Container.ReplaceContainerAsync(read)).Resource.DefaultTimeToLive);
        Expect.Equal(HttpStatusCode.OK, (await Database.CreateContainerIfNotExistsAsync(id, "/pk")).StatusCode);
        Expect.That((await Database.GetContainerQueryIterator<ContainerProperties>().All()).Any(one => one.Id == id), "it is listed");
        await made.Container.DeleteContainerAsync();
        await Expect.Refused(HttpStatusCode.NotFound, () => made.Container.ReadContainerAsync());
    }

    public async Task AContainerOfSeveralRangesIsWrittenAtOnce()
    {
        var container = await NewContainer(SeveralRanges);
        Expect.That((await container.GetFeedRangesAsync()).Count > 1, "several ranges");
        foreach (int n in Enumerable.Range(0, 30))
        {
            await container.UpsertItemAsync(new Thing("1", $"p{n % 7}", n));
            Expect.Equal(n, (await container.ReadItemAsync<Thing>("1", new PartitionKey($"p{n % 7}"))).Resource.n);
        }
    }

    public async Task HierarchicalKeys()
    {
        Container container = await Database.CreateContainerAsync(
            new ContainerProperties(NewId("c"), new Collection<string> { "/tenant", "/user", "/session" }));
        foreach (var tenant in new[] { "a", "b" })
            foreach (var user in new[] { "u", "v" })
                foreach (var session in new[] { "1", "2" })
                    await container.CreateItemAsync(new { id = $"{tenant}{user}{session}", tenant, user, session });
        var whole = new PartitionKeyBuilder().Add("a").Add("u").Add("1").Build();
        Expect.Equal(HttpStatusCode.OK, (await container.ReadItemAsync<Dictionary<string, object>>("au1", whole)).StatusCode);
        var prefix = new QueryRequestOptions { PartitionKey = new PartitionKeyBuilder().Add("a").Add("u").Build() };
        Expect.Rows(["au1", "au2"], (await container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c", requestOptions: prefix).All()).Order());
        var tenants = new QueryRequestOptions { PartitionKey = new PartitionKeyBuilder().Add("b").Build() };
        Expect.Equal(4, (await container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c", requestOptions: tenants).All()).Count);
        await container.DeleteItemAsync<object>("au1", whole);
        Expect.Equal(7, (await container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c").All()).Single());
    }

    public async Task UniqueKeys()
    {
        var container = await NewContainer(change: properties =>
        {
            var key = new UniqueKey();
            key.Paths.Add("/name");
            properties.UniqueKeyPolicy.UniqueKeys.Add(key);
        });
        await container.CreateItemAsync(new Thing("1", "a", name: "ann"));
        await Expect.Refused(HttpStatusCode.Conflict, () => container.CreateItemAsync(new Thing("2", "a", name: "ann")));
        await container.CreateItemAsync(new Thing("2", "b", name: "ann"));
        await Expect.Refused(HttpStatusCode.Conflict, async () =>
        {
            await container.CreateItemAsync(new Thing("3", "b", name: "bob"));
            await container.PatchItemAsync<Thing>("3", new PartitionKey("b"), [PatchOperation.Set("/name", "ann")]);
        });
    }

    public async Task ItemsExpire()
    {
        var container = await NewContainer(change: properties => properties.DefaultTimeToLive = -1);
        await container.CreateItemAsync(new { id = "short", pk = "a", ttl = 1 });
        await container.CreateItemAsync(new { id = "long", pk = "a" });
        var key = new PartitionKey("a");
        for (var end = DateTime.UtcNow.AddSeconds(20); ; await Task.Delay(100))
        {
            using var answer = await container.ReadItemStreamAsync("short", key);
            if (answer.StatusCode == HttpStatusCode.NotFound) break;
            Expect.That(DateTime.UtcNow < end, "it expires");
        }
        Expect.Rows(["long"], await container.GetItemQueryIterator<string>("SELECT VALUE c.id FROM c").All());
    }

    public async Task ThroughputIsReadAndReplaced()
    {
        var container = await NewContainer(1000);
        Expect.Equal(1000, await container.ReadThroughputAsync());
        var replaced = await container.ReplaceThroughputAsync(1500);
        Expect.Equal(1500, replaced.Resource.Throughput);
        var response = await container.ReadThroughputAsync(new RequestOptions());
        Expect.Equal(1500, response.Resource.Throughput);
        Expect.Equal(400, response.MinThroughput);
        await Expect.Refused(HttpStatusCode.BadRequest, () => container.ReplaceThroughputAsync(150));
    }

    public async Task AutoscaleAndSharedThroughput()
    {
        var properties = new ContainerProperties(NewId("c"), "/pk");
        Container autoscaled = await Database.CreateContainerAsync(properties, ThroughputProperties.CreateAutoscaleThroughput(4000));
        var found = (await autoscaled.ReadThroughputAsync(new RequestOptions())).Resource;
        Expect.Equal(4000, found.AutoscaleMaxThroughput);
        await autoscaled.ReplaceThroughputAsync(ThroughputProperties.CreateAutoscaleThroughput(6000));
        Expect.Equal(6000, (await autoscaled.ReadThroughputAsync(new RequestOptions())).Resource.AutoscaleMaxThroughput);
        Database shared = await Client.CreateDatabaseAsync(NewId("shared"), 800);
        Container inside = await shared.CreateContainerAsync(NewId("c"), "/pk");
        Expect.Equal(null, await inside.ReadThroughputAsync());
        Expect.Equal(800, await shared.ReadThroughputAsync());
        await shared.DeleteAsync();
    }

    public async Task ProceduresFunctionsAndTriggers()
    {
        var container = await NewContainer();
        var scripts = container.Scripts;
        await scripts.CreateStoredProcedureAsync(new StoredProcedureProperties("add", """
            function (id, n) {
              const context = getContext();
              const pk = "a";
              context.getCollection().createDocument(context.getCollection().getSelfLink(), { id, pk, n }, (error, made) => {
                if (error) throw error;
                console.log("made " + id);
                context.getResponse().setBody(made.n + 1);
              });
            }
            """));
        var key = new PartitionKey("a");
        var answer = await scripts.ExecuteStoredProcedureAsync<int>(
            "add", key, ["1", 41], new StoredProcedureRequestOptions { EnableScriptLogging = true });
        Expect.Equal(42, answer.Resource);
        Expect.Equal("made 1", answer.ScriptLog);
        await Expect.Refused(HttpStatusCode.BadRequest, () => scripts.ExecuteStoredProcedureAsync<int>("add", key, ["1", 41]));
        await scripts.CreateUserDefinedFunctionAsync(new UserDefinedFunctionProperties { Id = "twice", Body = "function (n) { return 2 * n; }" });
        Expect.Rows([82], await container.GetItemQueryIterator<int>("SELECT VALUE udf.twice(c.n) FROM c").All());
        await scripts.CreateTriggerAsync(new TriggerProperties
        {
            Id = "stamp",
            TriggerType = TriggerType.Pre,
            TriggerOperation = TriggerOperation.Create,
            Body = """
                function () {
                  const request = getContext().getRequest();
                  request.setBody({ ...request.getBody(), name: "stamped" });
                }
                """,
        });
        var stamped = await container.CreateItemAsync(new Thing("2", "a"), key, new ItemRequestOptions { PreTriggers = ["stamp"] });
        Expect.Equal("stamped", stamped.Resource.name);
        Expect.Rows(["add"], (await scripts.GetStoredProcedureQueryIterator<StoredProcedureProperties>().All()).Select(one => one.Id));
        Expect.Rows(["twice"], (await scripts.GetUserDefinedFunctionQueryIterator<UserDefinedFunctionProperties>().All()).Select(one => one.Id));
        Expect.Rows(["stamp"], (await scripts.GetTriggerQueryIterator<TriggerProperties>().All()).Select(one => one.Id));
        var replaced = await scripts.ReplaceStoredProcedureAsync(new StoredProcedureProperties("add", "function () { getContext().getResponse().setBody(7); }"));
        Expect.Equal(HttpStatusCode.OK, replaced.StatusCode);
        Expect.Equal(7, (await scripts.ExecuteStoredProcedureAsync<int>("add", key, null)).Resource);
        await scripts.DeleteStoredProcedureAsync("add");
        await Expect.Refused(HttpStatusCode.NotFound, () => scripts.ReadStoredProcedureAsync("add"));
    }

    public async Task ResourceTokens()
    {
        var container = await NewContainer();
        await container.CreateItemAsync(new Thing("1", "a"));
        await container.CreateItemAsync(new Thing("1", "b"));
        User user = await Database.CreateUserAsync(NewId("u"));
        PermissionProperties reading = await user.CreatePermissionAsync(new PermissionProperties("reading", PermissionMode.Read, container));
        var reader = Connect(reading.Token).GetContainer(Database.Id, container.Id);
        Expect.Equal("a", (await reader.ReadItemAsync<Thing>("1", new PartitionKey("a"))).Resource.pk);
        Expect.Equal(2, (await reader.GetItemQueryIterator<Thing>("SELECT * FROM c").All()).Count);
        await Expect.Refused(HttpStatusCode.Forbidden, () => reader.UpsertItemAsync(new Thing("2", "a")));
        PermissionProperties one = await user.CreatePermissionAsync(
            new PermissionProperties("one", PermissionMode.All, container, new PartitionKey("a")), tokenExpiryInSeconds: 600);
        var writer = Connect(one.Token).GetContainer(Database.Id, container.Id);
        await writer.UpsertItemAsync(new Thing("2", "a"), new PartitionKey("a"));
        await Expect.Refused(HttpStatusCode.Forbidden, () => writer.UpsertItemAsync(new Thing("2", "b"), new PartitionKey("b")));
        Expect.Rows(["one", "reading"], (await user.GetPermissionQueryIterator<PermissionProperties>().All()).Select(each => each.Id).Order());
        Expect.That((await Database.GetUserQueryIterator<UserProperties>().All()).Any(each => each.Id == user.Id), "the user is listed");
        await user.DeleteAsync();
        await Expect.Refused(HttpStatusCode.NotFound, () => user.ReadAsync());
    }

    public async Task ThrottledRequestsAreWaitedOut()
    {
        using var server = new Server("--throttling", "on");
        string id = NewId("db");
        Database database = await Connect(server: server).CreateDatabaseAsync(id);
        string text = new('x', 100_000);
        // 20 items of some 50 RU are more than 400 RU/s have in a second.
        Container container = await database.CreateContainerAsync(NewId("c"), "/pk", 400);
        await Task.WhenAll(Enumerable.Range(0, 20).Select(n => container.CreateItemAsync(new Thing($"{n}", $"p{n}", name: text))));
        Expect.Rows([20], await container.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c").All());
        var hasty = Connect(change: options => options.MaxRetryAttemptsOnRateLimitedRequests = 0, server: server);
        var refusal = await Expect.Refused(HttpStatusCode.TooManyRequests, async () =>
        {
            for (int n = 20; n < 200; n++)
                await hasty.GetContainer(id, container.Id).CreateItemAsync(new Thing($"{n}", "p", name: text));
        }, substatus: 3200);
        Expect.That(refusal.RetryAfter > TimeSpan.Zero, "a time to wait");
    }
}
