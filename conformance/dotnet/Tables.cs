// Microsoft.Azure.Cosmos.Table 1.0.8, by REST, in both flavours of the Table API.

using System.Net;
using Microsoft.Azure.Cosmos.Table;

namespace Planisphere.Conformance;

public class Customer : TableEntity
{
    public Customer() { }
    public Customer(string last, string first) : base(last, first) { }
    public string? Email { get; set; }
    public int Visits { get; set; }
    public long Points { get; set; }
    public double Weight { get; set; }
    public bool IsActive { get; set; }
    public DateTime? Since { get; set; }
    public Guid Token { get; set; }
    public byte[]? Photo { get; set; }
}

public abstract class TableSuite : Suite
{
    CloudTableClient client = null!;

    /// <summary>This SDK has no way to trust an authority that the system does not.</summary>
    public override string[] Transports => ["http"];

    protected static TableClientConfiguration ByRest => new() { UseRestExecutorForCosmosEndpoint = true };

    protected abstract (StorageCredentials Credentials, Uri Endpoint) Account { get; }

    public override async Task Open(Server server, string transport)
    {
        await base.Open(server, transport);
        var (credentials, endpoint) = Account;
        client = new CloudTableClient(endpoint, credentials, ByRest);
    }

    protected async Task<CloudTable> NewTable()
    {
        var table = client.GetTableReference("t" + Guid.NewGuid().ToString("N"));
        await table.CreateAsync();
        return table;
    }

    protected static Customer Ann => new("Smith", "Ann")
    {
        Email = "ann@example.com",
        Visits = 3,
        Points = 5_000_000_000,
        Weight = 61.5,
        IsActive = true,
        Since = new DateTime(2019, 1, 2, 3, 4, 5, DateTimeKind.Utc),
        Token = Guid.Parse("11111111-2222-3333-4444-555555555555"),
        Photo = [1, 2, 255],
    };

    public async Task TablesAreMadeListedAndDeleted()
    {
        var table = await NewTable();
        Expect.That(!await table.CreateIfNotExistsAsync(), "it is there");
        Expect.That((await client.ListTablesSegmentedAsync(null)).Any(one => one.Name == table.Name), "it is listed");
        await table.DeleteAsync();
        Expect.That(!await table.ExistsAsync(), "it is gone");
    }

    public async Task EntitiesWithEveryType()
    {
        var table = await NewTable();
        await table.ExecuteAsync(TableOperation.Insert(Ann));
        await Refused(HttpStatusCode.Conflict, () => table.ExecuteAsync(TableOperation.Insert(Ann)));
        var found = (Customer)(await table.ExecuteAsync(TableOperation.Retrieve<Customer>("Smith", "Ann"))).Result;
        var ann = Ann;
        Expect.Equal(
            (ann.Email, ann.Visits, ann.Points, ann.Weight, ann.IsActive, ann.Since, ann.Token),
            (found.Email, found.Visits, found.Points, found.Weight, found.IsActive, found.Since, found.Token));
        Expect.Rows(ann.Photo!, found.Photo!);
        Expect.That(found.ETag is not null && found.Timestamp > DateTimeOffset.UtcNow.AddHours(-1), "version and time");
        string first = found.ETag!;
        found.Visits = 4;
        await table.ExecuteAsync(TableOperation.Replace(found));
        found.ETag = first;
        await Refused(HttpStatusCode.PreconditionFailed, () => table.ExecuteAsync(TableOperation.Replace(found)));
        var part = new DynamicTableEntity("Smith", "Ann") { ETag = "*" };
        part.Properties["Email"] = new EntityProperty("new@example.com");
        await table.ExecuteAsync(TableOperation.Merge(part));
        found = (Customer)(await table.ExecuteAsync(TableOperation.Retrieve<Customer>("Smith", "Ann"))).Result;
        Expect.Equal(("new@example.com", 4), (found.Email!, found.Visits));
        await table.ExecuteAsync(TableOperation.InsertOrReplace(new Customer("Smith", "Ann") { Visits = 9 }));
        await table.ExecuteAsync(TableOperation.InsertOrMerge(new Customer("Smith", "Bob")));
        await table.ExecuteAsync(TableOperation.Delete(new Customer("Smith", "Ann") { ETag = "*" }));
        Expect.Equal(404, (await table.ExecuteAsync(TableOperation.Retrieve<Customer>("Smith", "Ann"))).HttpStatusCode);
    }

    public async Task FiltersAndSegments()
    {
        var table = await NewTable();
        foreach (int n in Enumerable.Range(0, 25))
            await table.ExecuteAsync(TableOperation.Insert(new Customer($"p{n % 2}", $"r{n:00}") { Visits = n, IsActive = n % 3 == 0 }));
        string filter = TableQuery.CombineFilters(
            TableQuery.GenerateFilterCondition("PartitionKey", QueryComparisons.Equal, "p1"),
            TableOperators.And,
            TableQuery.GenerateFilterConditionForInt("Visits", QueryComparisons.GreaterThanOrEqual, 11));
        Expect.Rows(["r11", "r13", "r15", "r17", "r19", "r21", "r23"], (await All(table, new TableQuery<Customer>().Where(filter))).Select(one => one.RowKey));
        var paged = await All(table, new TableQuery<Customer>().Take(4));
        Expect.Rows(Enumerable.Range(0, 25).OrderBy(n => n % 2).ThenBy(n => n), paged.Select(one => one.Visits));
        var linq = table.CreateQuery<Customer>().Where(one => one.PartitionKey == "p0" && one.IsActive && one.Visits < 15);
        Expect.Rows([0, 6, 12], linq.AsEnumerable().Select(one => one.Visits));
        var names = table.ExecuteQuery(new TableQuery<DynamicTableEntity>().Select(["Visits"]), (_, row, _, properties, _) => $"{row}={properties["Visits"].Int32Value}");
        Expect.That(names.Contains("r07=7"), "chosen properties");
    }

    public async Task Batches()
    {
        var table = await NewTable();
        var batch = new TableBatchOperation();
        foreach (int n in Enumerable.Range(0, 10)) batch.Insert(new Customer("p", $"{n}") { Visits = n });
        var results = await table.ExecuteBatchAsync(batch);
        Expect.Equal(10, results.Count);
        var bad = new TableBatchOperation();
        bad.InsertOrReplace(new Customer("p", "0") { Visits = 100 });
        bad.Insert(new Customer("p", "5"));
        await Refused(HttpStatusCode.Conflict, () => table.ExecuteBatchAsync(bad));
        var zero = (Customer)(await table.ExecuteAsync(TableOperation.Retrieve<Customer>("p", "0"))).Result;
        Expect.Equal(0, zero.Visits);
    }

    static async Task<List<Customer>> All(CloudTable table, TableQuery<Customer> query)
    {
        List<Customer> all = [];
        TableContinuationToken? token = null;
        do
        {
            var segment = await table.ExecuteQuerySegmentedAsync(query, token);
            all.AddRange(segment);
            token = segment.ContinuationToken;
        }
        while (token is not null);
        return all;
    }

    protected static async Task Refused(HttpStatusCode status, Func<Task> work)
    {
        try
        {
            await work();
        }
        catch (StorageException refusal)
        {
            Expect.Equal((int)status, refusal.RequestInformation.HttpStatusCode);
            return;
        }
        throw new ExpectationException($"expected {status}, nothing was refused");
    }
}

public sealed class StorageTables : TableSuite
{
    const string DevelopmentKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    protected override (StorageCredentials Credentials, Uri Endpoint) Account =>
        (new StorageCredentials("devstoreaccount1", DevelopmentKey), new Uri(Server.Endpoint("table_storage", Transport), "/devstoreaccount1"));

    // In the other flavour the SDK finds no account in an address on this machine.
    public async Task SharedAccessSignatures()
    {
        var table = await NewTable();
        await table.ExecuteAsync(TableOperation.Insert(Ann));
        string signature = table.GetSharedAccessSignature(new SharedAccessTablePolicy
        {
            Permissions = SharedAccessTablePermissions.Query,
            SharedAccessExpiryTime = DateTimeOffset.UtcNow.AddHours(1),
        });
        var reader = new CloudTableClient(Account.Endpoint, new StorageCredentials(signature), ByRest).GetTableReference(table.Name);
        Expect.Equal(200, (await reader.ExecuteAsync(TableOperation.Retrieve<Customer>("Smith", "Ann"))).HttpStatusCode);
        await Refused(HttpStatusCode.Forbidden, () => reader.ExecuteAsync(TableOperation.Insert(new Customer("Smith", "Bob"))));
    }
}

public sealed class CosmosTables : TableSuite
{
    protected override (StorageCredentials Credentials, Uri Endpoint) Account =>
        (new StorageCredentials("localhost", Server.Key), Server.Endpoint("table", Transport, "localhost"));
}
