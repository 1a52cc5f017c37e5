// azure-data-tables, in both flavours of the Table API.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.that;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.credential.AzureSasCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasSignatureValues;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;

abstract class Tables extends Suite {
    TableServiceClient service;

    @Override
    List<String> variants() {
        return List.of("https");
    }

    abstract String listener();

    abstract AzureNamedKeyCredential credential();

    @Override
    void open(Server server, String variant) throws Exception {
        super.open(server, variant);
        service = new TableServiceClientBuilder().endpoint(server.endpoint(listener())).credential(credential()).buildClient();
    }

    TableClient newTable() {
        return service.createTable("t" + UUID.randomUUID().toString().replace("-", ""));
    }

    static HttpResponseException refused(int status, Callable<?> work) throws Exception {
        try {
            work.call();
        } catch (HttpResponseException refusal) {
            equal(status, refusal.getResponse().getStatusCode());
            return refusal;
        }
        throw new AssertionError("expected " + status + ", nothing was refused");
    }

    static TableEntity customer(String last, String first, int visits) {
        return new TableEntity(last, first).addProperty("Visits", visits);
    }

    static List<Integer> visits(Iterable<TableEntity> entities) {
        return Expect.all(entities).stream().map(entity -> (Integer) entity.getProperty("Visits")).toList();
    }

    public void tablesAreMadeListedAndDeleted() throws Exception {
        TableClient table = newTable();
        equal(table.getTableName(), service.createTableIfNotExists(table.getTableName()).getTableName());
        refused(409, () -> service.createTable(table.getTableName()));
        that(service.listTables().stream().anyMatch(one -> one.getName().equals(table.getTableName())), "it is listed");
        table.deleteTable();
        refused(404, () -> table.getEntity("a", "b"));
    }

    public void entitiesWithEveryType() throws Exception {
        TableClient table = newTable();
        var since = OffsetDateTime.of(2019, 1, 2, 3, 4, 5, 0, ZoneOffset.UTC);
        Map<String, Object> values = Map.of(
            "Email", "ann@example.com", "Visits", 3, "Points", 5_000_000_000L, "Weight", 61.5, "Whole", 2.0, "IsActive", true,
            "Since", since, "Token", UUID.fromString("11111111-2222-3333-4444-555555555555"));
        var ann = new TableEntity("Smith", "Ann").setProperties(values).addProperty("Photo", new byte[] {1, 2, -1});
        table.createEntity(ann);
        refused(409, () -> {
            table.createEntity(ann);
            return null;
        });
        TableEntity found = table.getEntity("Smith", "Ann");
        for (var value : values.entrySet()) equal(value.getValue(), found.getProperty(value.getKey()));
        equal(List.of((byte) 1, (byte) 2, (byte) -1), bytes((byte[]) found.getProperty("Photo")));
        that(found.getETag() != null && found.getTimestamp().isAfter(OffsetDateTime.now().minusHours(1)), "version and time");
        found.addProperty("Visits", 4);
        table.updateEntityWithResponse(found, TableEntityUpdateMode.REPLACE, true, null, null);
        refused(412, () -> table.updateEntityWithResponse(found, TableEntityUpdateMode.REPLACE, true, null, null));
        table.updateEntity(new TableEntity("Smith", "Ann").addProperty("Email", "new@example.com"), TableEntityUpdateMode.MERGE);
        TableEntity merged = table.getEntity("Smith", "Ann");
        equal("new@example.com", merged.getProperty("Email"));
        equal(4, merged.getProperty("Visits"));
        table.upsertEntity(customer("Smith", "Bob", 9));
        table.deleteEntity("Smith", "Ann");
        refused(404, () -> table.getEntity("Smith", "Ann"));
        equal(9, table.getEntity("Smith", "Bob").getProperty("Visits"));
    }

    static List<Byte> bytes(byte[] array) {
        List<Byte> list = new ArrayList<>();
        for (byte one : array) list.add(one);
        return list;
    }

    public void filtersSelectionAndPages() throws Exception {
        TableClient table = newTable();
        IntStream.range(0, 25).forEach(n -> table.createEntity(customer("p" + n % 2, "r%02d".formatted(n), n)));
        var options = new ListEntitiesOptions().setFilter("PartitionKey eq 'p1' and Visits ge 11").setSelect(List.of("Visits"));
        equal(List.of(11, 13, 15, 17, 19, 21, 23), visits(table.listEntities(options, null, null)));
        List<Integer> paged = new ArrayList<>();
        for (var page : table.listEntities(new ListEntitiesOptions().setTop(4), null, null).iterableByPage()) {
            that(page.getValue().size() <= 4, "pages of four");
            paged.addAll(visits(page.getValue()));
        }
        equal(IntStream.range(0, 25).map(n -> n < 13 ? 2 * n : 2 * (n - 13) + 1).boxed().toList(), paged);
        refused(400, () -> visits(table.listEntities(new ListEntitiesOptions().setFilter("Visits gt"), null, null)));
    }

    public void transactions() throws Exception {
        TableClient table = newTable();
        List<TableTransactionAction> actions = new ArrayList<>();
        for (int n = 0; n < 10; n++)
            actions.add(new TableTransactionAction(TableTransactionActionType.CREATE, customer("p", "" + n, n)));
        equal(10, table.submitTransaction(actions).getTransactionActionResponses().size());
        List<TableTransactionAction> bad = List.of(
            new TableTransactionAction(TableTransactionActionType.UPSERT_REPLACE, customer("p", "0", 100)),
            new TableTransactionAction(TableTransactionActionType.CREATE, customer("p", "5", 100)));
        try {
            table.submitTransaction(bad);
            throw new AssertionError("nothing was refused");
        } catch (TableTransactionFailedException refusal) {
            equal(1, refusal.getFailedTransactionActionIndex());
        }
        equal(0, table.getEntity("p", "0").getProperty("Visits"));
    }

    public void sharedAccessSignatures() throws Exception {
        TableClient table = newTable();
        table.createEntity(customer("Smith", "Ann", 1));
        var values = new TableSasSignatureValues(OffsetDateTime.now().plus(Duration.ofHours(1)), TableSasPermission.parse("r"));
        var signature = new AzureSasCredential(table.generateSas(values));
        TableClient reader = new TableServiceClientBuilder().endpoint(server.endpoint(listener())).credential(signature)
            .buildClient().getTableClient(table.getTableName());
        equal(1, reader.getEntity("Smith", "Ann").getProperty("Visits"));
        refused(403, () -> {
            reader.createEntity(customer("Smith", "Bob", 1));
            return null;
        });
    }
}
