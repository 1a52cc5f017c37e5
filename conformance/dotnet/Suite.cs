// What every file of tests needs: clients for one transport, and ways to say what is expected.

using System.Net;
using Microsoft.Azure.Cosmos;

namespace Planisphere.Conformance;

/// <summary>Tests that share a server. Each makes the databases or containers that it needs.</summary>
public abstract class Suite
{
    readonly List<IDisposable> open = [];

    protected Server Server { get; private set; } = null!;
    protected string Transport { get; private set; } = "";
    /// <summary>Direct mode asks for metadata over https.</summary>
    protected string Scheme => Transport == Direct ? "https" : Transport;
    protected Uri Endpoint => Server.Endpoint("nosql", Scheme);

    /// <summary>The transport of a client without options: frames over TLS.</summary>
    protected const string Direct = "direct";

    public virtual string[] Transports => ["http", "https"];

    /// <summary>How long one test may take.</summary>
    public virtual TimeSpan Patience => TimeSpan.FromMinutes(1);

    public virtual Task Open(Server server, string transport)
    {
        (Server, Transport) = (server, transport);
        return Task.CompletedTask;
    }

    public virtual Task Close()
    {
        foreach (var one in open) one.Dispose();
        return Task.CompletedTask;
    }

    /// <summary>What is closed after the last test.</summary>
    protected T Keep<T>(T one) where T : IDisposable
    {
        open.Add(one);
        return one;
    }

    protected static string NewId(string prefix) => $"{prefix}-{Guid.NewGuid().ToString()[..13]}";
}

/// <summary>Tests that use Microsoft.Azure.Cosmos (version 3), in a database of their own.</summary>
public abstract class CosmosSuite : Suite
{
    public override string[] Transports => ["http", "https", Direct];

    protected CosmosClient Client { get; private set; } = null!;
    protected Database Database { get; private set; } = null!;

    public override async Task Open(Server server, string transport)
    {
        await base.Open(server, transport);
        Client = Connect();
        Database = await Client.CreateDatabaseAsync(NewId("db"));
    }

    protected CosmosClient Connect(string? key = null, Action<CosmosClientOptions>? change = null, Server? server = null)
    {
        server ??= Server;
        var (endpoint, credential) = (server.Endpoint("nosql", Scheme).ToString(), key ?? server.Key);
        // As a program has it: no option at all. SSL_CERT_FILE makes it trust the server.
        if (Transport == Direct && change is null) return Keep(new CosmosClient(endpoint, credential));
        var options = Transport == Direct ? new CosmosClientOptions() : new CosmosClientOptions
        {
            ConnectionMode = ConnectionMode.Gateway,
            LimitToEndpoint = true,
            HttpClientFactory = () => new HttpClient(server.Handler()),
        };
        change?.Invoke(options);
        return Keep(new CosmosClient(endpoint, credential, options));
    }

    /// <summary>A container with the key /pk; with 20,000 RU/s it has several ranges.</summary>
    protected async Task<Container> NewContainer(int? throughput = null, Action<ContainerProperties>? change = null)
    {
        var properties = new ContainerProperties(NewId("c"), "/pk");
        change?.Invoke(properties);
        return await Database.CreateContainerAsync(properties, throughput);
    }

    protected const int SeveralRanges = 25_000;
}

/// <summary>An item of most tests.</summary>
public sealed record Thing(string id, string pk, int n = 0, string? name = null, string[]? tags = null, Part? part = null);

public sealed record Part(string kind, double weight);

/// <summary>Ways to say what is expected. Failures are exceptions.</summary>
public static class Expect
{
    public static void That(bool holds, string what)
    {
        if (!holds) throw new ExpectationException($"expected: {what}");
    }

    public static void Equal<T>(T expected, T found)
    {
        if (!EqualityComparer<T>.Default.Equals(expected, found))
            throw new ExpectationException($"expected {expected}, found {found}");
    }

    public static void Rows<T>(IEnumerable<T> expected, IEnumerable<T> found)
    {
        var (left, right) = (expected.ToList(), found.ToList());
        if (!left.SequenceEqual(right))
            throw new ExpectationException($"expected [{string.Join(", ", left)}], found [{string.Join(", ", right)}]");
    }

    /// <summary>The service refuses with this status.</summary>
    public static async Task<CosmosException> Refused(HttpStatusCode status, Func<Task> work, int? substatus = null)
    {
        try
        {
            await work();
        }
        catch (CosmosException refusal)
        {
            Equal(status, refusal.StatusCode);
            if (substatus is { } number) Equal(number, refusal.SubStatusCode);
            return refusal;
        }
        throw new ExpectationException($"expected {status}, nothing was refused");
    }

    public static async Task<List<T>> All<T>(this FeedIterator<T> feed)
    {
        using (feed)
        {
            List<T> all = [];
            while (feed.HasMoreResults) all.AddRange(await feed.ReadNextAsync());
            return all;
        }
    }
}

public sealed class ExpectationException(string message) : Exception(message);
