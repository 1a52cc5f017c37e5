// Transactional batches and bulk.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.refused;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkItemRequestOptions;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class Batches extends CosmosSuite {
    static final String LARGE = "x".repeat(20_000);

    static List<Integer> statuses(CosmosBatchResponse response) {
        return response.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
    }

    public void everyOperationInOneTransaction() {
        CosmosContainer container = newContainer();
        for (String id : List.of("replaced", "patched", "deleted")) container.createItem(new Thing(id, "a", 1));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(A);
        batch.createItemOperation(new Thing("created", "a", 2));
        batch.upsertItemOperation(new Thing("upserted", "a", 3));
        batch.replaceItemOperation("replaced", new Thing("replaced", "a", 4));
        batch.patchItemOperation("patched", CosmosPatchOperations.create().increment("/n", 4));
        batch.readItemOperation("patched");
        batch.deleteItemOperation("deleted");
        CosmosBatchResponse response = container.executeCosmosBatch(batch);
        that(response.isSuccessStatusCode() && response.getRequestCharge() > 0, "success and a charge");
        equal(List.of(201, 201, 200, 200, 200, 204), statuses(response));
        equal(5, response.getResults().get(4).getItem(Thing.class).n());
        that(response.getResults().get(0).getETag() != null, "the version of what was made");
        equal(List.of("created", "patched", "replaced", "upserted"), ids(container));
    }

    public void aRefusedOperationUndoesAll() {
        CosmosContainer container = newContainer();
        String version = container.createItem(new Thing("1", "a", 1)).getETag();
        container.upsertItem(new Thing("1", "a", 2));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(A);
        batch.createItemOperation(new Thing("2", "a", 2));
        batch.createItemOperation(new Thing("1", "a", 3));
        batch.createItemOperation(new Thing("3", "a", 4));
        CosmosBatchResponse response = container.executeCosmosBatch(batch);
        equal(409, response.getStatusCode());
        equal(List.of(424, 409, 424), statuses(response));
        CosmosBatch stale = CosmosBatch.createCosmosBatch(A);
        stale.upsertItemOperation(new Thing("2", "a", 2));
        var options = new CosmosBatchItemRequestOptions().setIfMatchETag(version);
        stale.replaceItemOperation("1", new Thing("1", "a", 3), options);
        equal(List.of(424, 412), statuses(container.executeCosmosBatch(stale)));
        equal(List.of("1"), ids(container));
    }

    public void limitsOfABatch() throws Exception {
        CosmosContainer container = newContainer();
        CosmosBatch hundred = CosmosBatch.createCosmosBatch(A);
        IntStream.range(0, 100).forEach(n -> hundred.upsertItemOperation(new Thing("" + n, "a", n)));
        equal(200, container.executeCosmosBatch(hundred).getStatusCode());
        hundred.upsertItemOperation(new Thing("100", "a", 100));
        refused(400, () -> container.executeCosmosBatch(hundred));
        equal(100, ids(container).size());
    }

    public void bulkOfEveryOperation() {
        CosmosContainer container = filled(20);
        List<CosmosItemOperation> operations = new ArrayList<>();
        for (int n = 0; n < 20; n++) {
            var key = new PartitionKey("p" + n);
            String id = "" + n;
            operations.add(switch (n % 5) {
                case 0 -> CosmosBulkOperations.getReadItemOperation(id, key);
                case 1 -> CosmosBulkOperations.getUpsertItemOperation(new Thing(id, "p" + n, n + 100), key);
                case 2 -> CosmosBulkOperations.getPatchItemOperation(id, key, CosmosPatchOperations.create().increment("/n", 100));
                case 3 -> CosmosBulkOperations.getReplaceItemOperation(id, new Thing(id, "p" + n, n + 100), key);
                default -> CosmosBulkOperations.getDeleteItemOperation(id, key);
            });
        }
        var asked = new CosmosBulkItemRequestOptions().setContentResponseOnWriteEnabled(true);
        operations.add(CosmosBulkOperations.getCreateItemOperation(new Thing("new", "n", 1), new PartitionKey("n"), asked));
        var declined = new CosmosBulkItemRequestOptions().setContentResponseOnWriteEnabled(false);
        operations.add(CosmosBulkOperations.getCreateItemOperation(new Thing("quiet", "q", 1), new PartitionKey("q"), declined));
        operations.add(CosmosBulkOperations.getReadItemOperation("none", new PartitionKey("x")));
        var answers = bulk(container, operations);
        for (var answer : answers) {
            String id = answer.getOperation().getId() == null ? "" : answer.getOperation().getId();
            int expected = switch (answer.getOperation().getOperationType()) {
                case CREATE -> 201;
                case DELETE -> 204;
                default -> id.equals("none") ? 404 : 200;
            };
            equal(expected, answer.getResponse().getStatusCode());
        }
        var made = answers.stream().filter(answer -> answer.getResponse().getStatusCode() == 201)
            .map(answer -> answer.getResponse().getItem(Thing.class)).filter(item -> item != null).toList();
        equal(List.of(new Thing("new", "n", 1)), made);
        var changed = container.queryItems(
            "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 100", new CosmosQueryRequestOptions(), Integer.class);
        equal(List.of(12), Expect.all(changed));
        equal(18, ids(container).size());
    }

    public void bulkIsWaitedOutWhereItIsThrottled() throws Exception {
        try (Server small = new Server("--throttling", "on")) {
            Trust.also(small.authority());
            try (CosmosClient own = builder(small, small.key()).buildClient()) {
                String id = newId("db");
                own.createDatabase(id);
                CosmosContainer container = make(own.getDatabase(id), 400, properties -> { });
                // Some 12 RU each: nine seconds of 400 RU/s.
                var creates = IntStream.range(0, 300).mapToObj(n -> CosmosBulkOperations.getCreateItemOperation(
                    new Thing("" + n, "p" + n % 30, n, LARGE, null, null), new PartitionKey("p" + n % 30))).toList();
                var answers = bulk(container, creates);
                equal(300, answers.size());
                for (var answer : answers) equal(201, answer.getResponse().getStatusCode());
                equal(300, ids(container).size());
            }
        }
    }

    static List<CosmosBulkOperationResponse<Object>> bulk(CosmosContainer container, Iterable<CosmosItemOperation> operations) {
        var answers = Expect.all(container.executeBulkOperations(operations));
        for (CosmosBulkOperationResponse<Object> answer : answers)
            if (answer.getException() != null) throw new AssertionError("a bulk operation failed", answer.getException());
        return answers;
    }

    static List<String> ids(CosmosContainer container) {
        var all = container.queryItems("SELECT VALUE c.id FROM c", new CosmosQueryRequestOptions(), String.class);
        return all.stream().sorted().collect(Collectors.toList());
    }
}
