// Microsoft.Azure.DocumentDB.Core (version 2), with the code that the documents of partitioned
// collections show.

using System.Net;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;
using Newtonsoft.Json;
using Newtonsoft.Json.Converters;

namespace Planisphere.Conformance;

public class DeviceReading
{
    [JsonProperty("id")] public string Id = "";
    [JsonProperty("deviceId")] public string DeviceId = "";
    [JsonConverter(typeof(IsoDateTimeConverter))]
    [JsonProperty("readingTime")] public DateTime ReadingTime;
    [JsonProperty("metricType")] public string MetricType = "";
    [JsonProperty("unit")] public string Unit = "";
    [JsonProperty("metricValue")] public double MetricValue;
}

public sealed class DocumentClients : Suite
{
    const int Devices = 12, ReadingsOfEach = 5;
    static readonly DateTime Time = new(2018, 5, 1, 10, 0, 0, DateTimeKind.Utc);

    DocumentClient client = null!;
    readonly string db = NewId("db");

    Uri DatabaseUri => UriFactory.CreateDatabaseUri(db);
    static RequestOptions Of(string device) => new() { PartitionKey = new PartitionKey(device) };

    public override async Task Open(Server server, string transport)
    {
        await base.Open(server, transport);
        client = Connect();
        await client.CreateDatabaseAsync(new Database { Id = db });
    }

    DocumentClient Connect() => Keep(new DocumentClient(
        Endpoint, Server.Key, Server.Handler(), new ConnectionPolicy { ConnectionMode = ConnectionMode.Gateway }));

    /// <summary>A collection by device of 20,000 RU/s, so that it has several ranges.</summary>
    async Task<string> NewCollection()
    {
        var collection = new DocumentCollection { Id = NewId("coll") };
        collection.PartitionKey.Paths.Add("/deviceId");
        var made = await client.CreateDocumentCollectionAsync(
            DatabaseUri, collection, new RequestOptions { OfferThroughput = 20_000 });
        Expect.Equal(HttpStatusCode.Created, made.StatusCode);
        return collection.Id;
    }

    async Task<Uri> WithReadings()
    {
        var uri = UriFactory.CreateDocumentCollectionUri(db, await NewCollection());
        foreach (var device in Enumerable.Range(0, Devices))
            foreach (var number in Enumerable.Range(0, ReadingsOfEach))
                await client.CreateDocumentAsync(uri, Reading($"XMS-{device:0000}", number, device + 100 * number));
        return uri;
    }

    static DeviceReading Reading(string device, int number, double value) => new()
    {
        Id = $"{device}-{number}",
        DeviceId = device,
        ReadingTime = Time,
        MetricType = number % 2 == 0 ? "Temperature" : "Humidity",
        Unit = "Celsius",
        MetricValue = value,
    };

    public async Task DatabaseAndCollectionAreMadeAndFound()
    {
        string id = await NewCollection();
        var uri = UriFactory.CreateDocumentCollectionUri(db, id);
        DocumentCollection read = await client.ReadDocumentCollectionAsync(uri);
        Expect.Rows(["/deviceId"], read.PartitionKey.Paths);
        Database database = await client.ReadDatabaseAsync(DatabaseUri);
        Expect.Equal(db, database.Id);
        Expect.That(client.CreateDatabaseQuery().AsEnumerable().Any(one => one.Id == db), "the database is listed");
        Expect.Equal(1, client.CreateDatabaseQuery().Where(one => one.Id == db).AsEnumerable().Count());
        Expect.That(client.CreateDocumentCollectionQuery(DatabaseUri).AsEnumerable().Any(one => one.Id == id), "the collection is listed");
        Expect.Equal(1, client.CreateDocumentCollectionQuery(DatabaseUri).Where(one => one.Id == id).AsEnumerable().Count());
        var ranges = await client.ReadPartitionKeyRangeFeedAsync(uri);
        Expect.That(ranges.Count > 1, $"several ranges, not {ranges.Count}");
        await client.DeleteDocumentCollectionAsync(uri);
        Expect.Equal(HttpStatusCode.NotFound, await StatusOf(() => client.ReadDocumentCollectionAsync(uri)));
    }

    public async Task DocumentsAreCreatedReadReplacedAndDeleted()
    {
        string coll = await NewCollection();
        var collection = UriFactory.CreateDocumentCollectionUri(db, coll);
        var document = UriFactory.CreateDocumentUri(db, coll, "XMS-001-FE24C");
        await client.CreateDocumentAsync(collection, new DeviceReading
        {
            Id = "XMS-001-FE24C",
            DeviceId = "XMS-0001",
            MetricType = "Temperature",
            MetricValue = 105.00,
            Unit = "Fahrenheit",
            ReadingTime = Time,
        });
        Document result = await client.ReadDocumentAsync(document, Of("XMS-0001"));
        DeviceReading reading = (DeviceReading)(dynamic)result;
        Expect.Equal(105.0, reading.MetricValue);
        Expect.Equal(Time, reading.ReadingTime);
        reading.MetricValue = 104;
        reading.ReadingTime = Time.AddHours(1);
        Document replaced = await client.ReplaceDocumentAsync(document, reading);
        Expect.Equal(104.0, ((DeviceReading)(dynamic)replaced).MetricValue);
        var typed = await client.ReadDocumentAsync<DeviceReading>(document, Of("XMS-0001"));
        Expect.Equal(Time.AddHours(1), typed.Document.ReadingTime);
        reading.MetricValue = 103;
        var upserted = await client.UpsertDocumentAsync(collection, reading);
        Expect.Equal(HttpStatusCode.OK, upserted.StatusCode);
        await client.DeleteDocumentAsync(document, Of("XMS-0001"));
        Expect.Equal(HttpStatusCode.NotFound, await StatusOf(() => client.ReadDocumentAsync(document, Of("XMS-0001"))));
        await client.CreateDocumentAsync(collection, reading);
        Expect.Equal(HttpStatusCode.Conflict, await StatusOf(() => client.CreateDocumentAsync(collection, reading)));
        var stale = new RequestOptions
        {
            PartitionKey = new PartitionKey("XMS-0001"),
            AccessCondition = new AccessCondition { Type = AccessConditionType.IfMatch, Condition = result.ETag },
        };
        Expect.Equal(HttpStatusCode.PreconditionFailed, await StatusOf(() => client.ReplaceDocumentAsync(document, reading, stale)));
    }

    public async Task LinqByPartitionKey()
    {
        var uri = await WithReadings();
        IQueryable<DeviceReading> query = client.CreateDocumentQuery<DeviceReading>(uri)
            .Where(m => m.MetricType == "Temperature" && m.DeviceId == "XMS-0001");
        Expect.Rows(["XMS-0001-0", "XMS-0001-2", "XMS-0001-4"], query.AsEnumerable().Select(m => m.Id).Order());
    }

    public async Task LinqAcrossPartitionKeys()
    {
        var uri = await WithReadings();
        IQueryable<DeviceReading> query = client.CreateDocumentQuery<DeviceReading>(
                uri, new FeedOptions { EnableCrossPartitionQuery = true })
            .Where(m => m.MetricType == "Temperature" && m.MetricValue > 100);
        Expect.Equal(2 * Devices, query.AsEnumerable().Count());
        // Without being asked to, no query leaves its partition.
        Expect.Equal(HttpStatusCode.BadRequest, await StatusOf(
            () => client.CreateDocumentQuery<DeviceReading>(uri).Where(m => m.MetricValue > 100).AsDocumentQuery().ExecuteNextAsync()));
    }

    public async Task LinqOrderedInParallel()
    {
        var uri = await WithReadings();
        var options = new FeedOptions
        {
            EnableCrossPartitionQuery = true,
            MaxDegreeOfParallelism = 10,
            MaxBufferedItemCount = 100,
            MaxItemCount = 7,
        };
        var query = client.CreateDocumentQuery<DeviceReading>(uri, options)
            .Where(m => m.MetricType == "Temperature" && m.MetricValue > 100)
            .OrderBy(m => m.MetricValue)
            .AsDocumentQuery();
        List<double> values = [];
        while (query.HasMoreResults) values.AddRange((await query.ExecuteNextAsync<DeviceReading>()).Select(m => m.MetricValue));
        Expect.Rows(
            from number in new[] { 200, 400 } from device in Enumerable.Range(0, Devices) select (double)(number + device),
            values);
    }

    public async Task SqlWithParametersAggregatesAndPages()
    {
        var uri = await WithReadings();
        var options = new FeedOptions { EnableCrossPartitionQuery = true, MaxItemCount = 10 };
        var spec = new SqlQuerySpec("SELECT * FROM c WHERE c.metricValue >= @low", [new SqlParameter("@low", 100)]);
        var query = client.CreateDocumentQuery<DeviceReading>(uri, spec, options).AsDocumentQuery();
        HashSet<string> found = [];
        string? token = null;
        int before = 0;
        while (query.HasMoreResults)
        {
            var page = await query.ExecuteNextAsync<DeviceReading>();
            foreach (var reading in page) Expect.That(found.Add(reading.Id), $"{reading.Id} comes once");
            if (token is null && page.ResponseContinuation is { } next) (token, before) = (next, found.Count);
        }
        Expect.Equal((ReadingsOfEach - 1) * Devices, found.Count);
        // Another query goes on where the first page ended.
        Expect.That(token is not null, "several pages");
        options.RequestContinuation = token;
        var rest = client.CreateDocumentQuery<DeviceReading>(uri, spec, options).AsEnumerable().Count();
        Expect.Equal(found.Count - before, rest);
        var sum = client.CreateDocumentQuery<double>(uri, "SELECT VALUE SUM(c.metricValue) FROM c", new FeedOptions { EnableCrossPartitionQuery = true });
        Expect.Equal((double)(ReadingsOfEach * 66 + Devices * 1000), sum.AsEnumerable().Single());
    }

    public async Task FeedsOfDocumentsAndChanges()
    {
        var uri = await WithReadings();
        HashSet<string> found = [];
        string? token = null;
        do
        {
            var page = await client.ReadDocumentFeedAsync(uri, new FeedOptions { MaxItemCount = 11, RequestContinuation = token });
            foreach (Document document in page) Expect.That(found.Add(document.Id), $"{document.Id} comes once");
            token = page.ResponseContinuation;
        }
        while (!string.IsNullOrEmpty(token));
        Expect.Equal(Devices * ReadingsOfEach, found.Count);
        HashSet<string> changed = [];
        foreach (PartitionKeyRange range in await client.ReadPartitionKeyRangeFeedAsync(uri))
        {
            var options = new ChangeFeedOptions { PartitionKeyRangeId = range.Id, StartFromBeginning = true, MaxItemCount = 9 };
            var changes = client.CreateDocumentChangeFeedQuery(uri, options);
            while (changes.HasMoreResults)
                foreach (var change in await changes.ExecuteNextAsync<Document>()) changed.Add(change.Id);
        }
        Expect.That(found.SetEquals(changed), "every document is a change");
    }

    public async Task StoredProcedureInOnePartition()
    {
        string coll = await NewCollection();
        var collection = UriFactory.CreateDocumentCollectionUri(db, coll);
        foreach (var number in Enumerable.Range(0, 3))
            await client.CreateDocumentAsync(collection, Reading("XMS-001", number, number));
        await client.CreateDocumentAsync(collection, Reading("XMS-002", 7, 1000));
        await client.CreateStoredProcedureAsync(collection, new StoredProcedure
        {
            Id = "SetLatestStateAcrossReadings",
            Body = """
                function (id) {
                  const collection = getContext().getCollection();
                  collection.queryDocuments(collection.getSelfLink(), "SELECT * FROM r ORDER BY r.metricValue DESC", (error, found) => {
                    if (error) throw error;
                    const latest = { ...found[0], id, metricType: "Latest" };
                    for (const name of Object.keys(latest)) if (name.startsWith("_")) delete latest[name];
                    collection.createDocument(collection.getSelfLink(), latest, (error, made) => {
                      if (error) throw error;
                      getContext().getResponse().setBody(made);
                    });
                  });
                }
                """,
        });
        var uri = UriFactory.CreateStoredProcedureUri(db, coll, "SetLatestStateAcrossReadings");
        var answer = await client.ExecuteStoredProcedureAsync<DeviceReading>(uri, Of("XMS-001"), "XMS-001-FE24C");
        Expect.Equal("XMS-001-FE24C", answer.Response.Id);
        Expect.Equal(2.0, answer.Response.MetricValue);
        Document made = await client.ReadDocumentAsync(UriFactory.CreateDocumentUri(db, coll, "XMS-001-FE24C"), Of("XMS-001"));
        Expect.Equal("Latest", made.GetPropertyValue<string>("metricType"));
        Expect.Equal(1, client.CreateStoredProcedureQuery(collection).AsEnumerable().Count());
    }

    public async Task AClientReadsItsOwnWritesOverRanges()
    {
        string coll = await NewCollection();
        var uri = UriFactory.CreateDocumentCollectionUri(db, coll);
        // What it has seen of the collection must not stand in the way of what it asks of a range.
        await client.ReadDocumentCollectionAsync(uri);
        await client.ReadDocumentFeedAsync(uri);
        foreach (var number in Enumerable.Range(0, 60))
        {
            var device = $"XMS-{number % Devices:0000}";
            await client.UpsertDocumentAsync(uri, Reading(device, 0, number));
            var read = await client.ReadDocumentAsync<DeviceReading>(UriFactory.CreateDocumentUri(db, coll, $"{device}-0"), Of(device));
            Expect.Equal((double)number, read.Document.MetricValue);
        }
    }

    public async Task OffersAreFoundAndReplaced()
    {
        DocumentCollection collection = await client.ReadDocumentCollectionAsync(UriFactory.CreateDocumentCollectionUri(db, await NewCollection()));
        Expect.That(client.CreateOfferQuery().AsEnumerable().Any(one => one.ResourceLink == collection.SelfLink), "the offer is listed");
        var offer = (OfferV2)client.CreateOfferQuery().Where(one => one.ResourceLink == collection.SelfLink).AsEnumerable().Single();
        Expect.Equal(20_000, offer.Content.OfferThroughput);
        await client.ReplaceOfferAsync(new OfferV2(offer, 15_000));
        var read = (OfferV2)(await client.ReadOfferAsync(offer.SelfLink)).Resource;
        Expect.Equal(15_000, read.Content.OfferThroughput);
    }

    public async Task ACollectionWithoutAPartitionKey()
    {
        string id = NewId("fixed");
        await client.CreateDocumentCollectionAsync(DatabaseUri, new DocumentCollection { Id = id });
        var uri = UriFactory.CreateDocumentCollectionUri(db, id);
        DocumentCollection read = await client.ReadDocumentCollectionAsync(uri);
        Expect.Equal(0, read.PartitionKey.Paths.Count);
        await client.CreateDocumentAsync(uri, Reading("XMS-0001", 0, 1));
        await client.CreateDocumentAsync(uri, Reading("XMS-0002", 0, 2));
        var found = await client.ReadDocumentAsync<DeviceReading>(UriFactory.CreateDocumentUri(db, id, "XMS-0002-0"));
        Expect.Equal(2.0, found.Document.MetricValue);
        var ordered = client.CreateDocumentQuery<DeviceReading>(uri).OrderByDescending(m => m.MetricValue);
        Expect.Rows(["XMS-0002-0", "XMS-0001-0"], ordered.AsEnumerable().Select(m => m.Id));
        await client.DeleteDocumentAsync(UriFactory.CreateDocumentUri(db, id, "XMS-0001-0"));
        Expect.Equal(1, client.CreateDocumentQuery<DeviceReading>(uri).AsEnumerable().Count());
    }

    static async Task<HttpStatusCode?> StatusOf<T>(Func<Task<T>> work)
    {
        try
        {
            await work();
            return null;
        }
        catch (DocumentClientException refusal)
        {
            return refusal.StatusCode;
        }
    }
}
