// Items, one at a time and many.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.refused;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

public final class Items extends CosmosSuite {
    static final CosmosItemRequestOptions NONE = new CosmosItemRequestOptions();

    static CosmosItemRequestOptions ifMatch(String etag) {
        return new CosmosItemRequestOptions().setIfMatchETag(etag);
    }

    public void createReadReplaceUpsertDelete() throws Exception {
        CosmosContainer container = newContainer();
        var thing = new Thing("1", "a", 1, "Zoë \u2603", List.of("x", "y"), new Thing.Part("wheel", 1.25));
        CosmosItemResponse<Thing> made = container.createItem(thing);
        equal(201, made.getStatusCode());
        that(made.getRequestCharge() > 0 && made.getETag() != null, "a charge and a version");
        that(made.getSessionToken().startsWith("0:-1#"), "a session token");
        refused(409, () -> container.createItem(thing));
        equal(thing, container.readItem("1", A, Thing.class).getItem());
        equal(2, container.replaceItem(new Thing("1", "a", 2), "1", A, NONE).getStatusCode() == 200 ? 2 : 0);
        equal(200, container.upsertItem(new Thing("1", "a", 3)).getStatusCode());
        equal(201, container.upsertItem(new Thing("2", "b", 0)).getStatusCode());
        equal(3, container.readItem("1", A, Thing.class).getItem().n());
        equal(204, container.deleteItem("1", A, NONE).getStatusCode());
        refused(404, 0, () -> container.readItem("1", A, Thing.class));
        refused(404, 0, () -> container.deleteItem("1", A, NONE));
        refused(400, 1001, () -> container.createItem(new Thing("3", "a", 0), new PartitionKey("b"), NONE));
        refused(413, () -> container.createItem(new Thing("4", "a", 0, "x".repeat(2_100_000), null, null)));
    }

    public void idsAndValuesOfEveryKind() throws Exception {
        CosmosContainer container = newContainer();
        for (String id : List.of("with space", "ü", "a+b&c=d", "100%", "'quote'", "[x]", "emoji \uD83D\uDE00")) {
            container.createItem(new Thing(id, "a", 0));
            equal(id, container.readItem(id, A, Thing.class).getItem().id());
        }
        JsonNode item = Server.JSON.readTree("""
            {"id":"v","pk":"a","big":9007199254740991,"neg":-0.5,"exp":1.5E+300,"t":true,"z":null,
             "o":{"a":[1,[2,{}]]},"s":"\\"\\\\\\u0001\\u2028"}""");
        container.createItem(item);
        JsonNode read = container.readItem("v", A, JsonNode.class).getItem();
        for (var field : item.properties()) equal(field.getValue(), read.get(field.getKey()));
        container.createItem(Map.of("id", "k", "pk", 1.5));
        container.createItem(Map.of("id", "k", "pk", true));
        container.createItem(Server.JSON.readTree("{\"id\":\"k\",\"pk\":null}"));
        container.createItem(Map.of("id", "k"));
        for (PartitionKey key : List.of(new PartitionKey(1.5), new PartitionKey(true), new PartitionKey(null), PartitionKey.NONE))
            equal(200, container.readItem("k", key, JsonNode.class).getStatusCode());
    }

    public void conditionsOnVersions() throws Exception {
        CosmosContainer container = newContainer();
        String first = container.createItem(new Thing("1", "a", 1)).getETag();
        String second = container.replaceItem(new Thing("1", "a", 2), "1", A, ifMatch(first)).getETag();
        refused(412, () -> container.replaceItem(new Thing("1", "a", 3), "1", A, ifMatch(first)));
        refused(412, () -> container.upsertItem(new Thing("1", "a", 3), A, ifMatch(first)));
        refused(412, () -> container.deleteItem("1", A, ifMatch(first)));
        var known = new CosmosItemRequestOptions().setIfNoneMatchETag(second);
        equal(304, container.readItem("1", A, known, Thing.class).getStatusCode());
        var old = new CosmosItemRequestOptions().setIfNoneMatchETag(first);
        equal(2, container.readItem("1", A, old, Thing.class).getItem().n());
    }

    public void patch() throws Exception {
        CosmosContainer container = newContainer();
        container.createItem(new Thing("1", "a", 1, "ann", List.of("x"), new Thing.Part("wheel", 1)));
        var operations = CosmosPatchOperations.create()
            .increment("/n", 4).set("/part/weight", 2.5).add("/tags/-", "y").replace("/name", "bob");
        Thing patched = container.patchItem("1", A, operations, returned(), Thing.class).getItem();
        equal(new Thing("1", "a", 5, "bob", List.of("x", "y"), new Thing.Part("wheel", 2.5)), patched);
        var more = CosmosPatchOperations.create().remove("/part").move("/name", "/was");
        patched = container.patchItem("1", A, more, returned(), Thing.class).getItem();
        equal(new Thing("1", "a", 5, null, List.of("x", "y"), null), patched);
        var only = returned().setFilterPredicate("FROM c WHERE c.n > 100");
        var zero = CosmosPatchOperations.create().set("/n", 0);
        refused(412, () -> container.patchItem("1", A, zero, only, Thing.class));
        refused(400, () -> container.patchItem("1", A, CosmosPatchOperations.create().increment("/was", 1), Thing.class));
        refused(404, () -> container.patchItem("2", A, zero, Thing.class));
    }

    static CosmosPatchItemRequestOptions returned() {
        var options = new CosmosPatchItemRequestOptions();
        options.setContentResponseOnWriteEnabled(true);
        return options;
    }

    /** Writes answer without the item unless asked otherwise, which is this SDK's default. */
    public void writtenItemsComeBackWhereAskedFor() {
        CosmosContainer container = newContainer();
        var asked = new CosmosItemRequestOptions().setContentResponseOnWriteEnabled(true);
        equal(null, container.upsertItem(new Thing("1", "a", 1)).getItem());
        equal(new Thing("1", "a", 2), container.upsertItem(new Thing("1", "a", 2), A, asked).getItem());
        equal(new Thing("1", "a", 3), container.replaceItem(new Thing("1", "a", 3), "1", A, asked).getItem());
    }

    public void readMany() {
        CosmosContainer container = filled(40);
        var wanted = Stream.concat(IntStream.range(10, 35).boxed(), Stream.of(99))
            .map(n -> new CosmosItemIdentity(new PartitionKey("p" + n), "" + n)).collect(Collectors.toList());
        var found = container.readMany(wanted, Thing.class);
        equal(Expect.numbers(10, 35), found.getResults().stream().map(Thing::n).sorted().toList());
        that(found.getRequestCharge() > 0, "a charge");
        var keys = List.of(new PartitionKey("p3"), new PartitionKey("p7"), new PartitionKey("p99"));
        equal(List.of(3, 7), Expect.sorted(container.readManyByPartitionKeys(keys, Thing.class).stream().map(Thing::n).toList()));
    }

    public void aSessionGoesOnInAnotherClient() throws Exception {
        CosmosContainer container = newContainer(SEVERAL_RANGES, properties -> { });
        String written = container.upsertItem(new Thing("1", "a", 7)).getSessionToken();
        try (var other = builder().buildClient()) {
            CosmosContainer same = other.getDatabase(database.getId()).getContainer(container.getId());
            equal(7, same.readItem("1", A, new CosmosItemRequestOptions().setSessionToken(written), Thing.class).getItem().n());
            String[] parts = written.split("#");
            String later = parts[0] + "#" + (Long.parseLong(parts[1]) + 1_000_000);
            var ahead = new CosmosItemRequestOptions().setSessionToken(later);
            refused(404, 1002, () -> same.readItem("1", A, ahead, Thing.class));
        }
    }

    public void ownWritesAreReadOnEveryRange() {
        CosmosContainer container = newContainer(SEVERAL_RANGES, properties -> { });
        that(container.getFeedRanges().size() > 1, "several ranges");
        for (int n = 0; n < 60; n++) {
            var key = new PartitionKey("p" + n % 7);
            container.upsertItem(new Thing("1", "p" + n % 7, n));
            equal(n, container.readItem("1", key, Thing.class).getItem().n());
            var options = new CosmosQueryRequestOptions().setPartitionKey(key);
            equal(List.of(n), Expect.all(container.queryItems("SELECT VALUE c.n FROM c", options, Integer.class)));
        }
    }

    public void allItemsOfAPartitionKeyAreDeleted() {
        CosmosContainer container = newContainer();
        IntStream.range(0, 10).forEach(n -> container.createItem(new Thing("" + n, n < 6 ? "a" : "b", n)));
        equal(200, container.deleteAllItemsByPartitionKey(A, NONE).getStatusCode());
        var left = container.queryItems("SELECT VALUE COUNT(1) FROM c", new CosmosQueryRequestOptions(), Integer.class);
        equal(List.of(4), Expect.all(left));
    }
}
