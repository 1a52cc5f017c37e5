// SQL within a partition and across them.

package conformance;

import static conformance.Expect.all;
import static conformance.Expect.equal;
import static conformance.Expect.numbers;
import static conformance.Expect.refused;
import static conformance.Expect.sorted;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

public final class Queries extends CosmosSuite {
    static final int COUNT = 60;
    CosmosContainer things;

    @Override
    void open(Server server, String variant) throws Exception {
        super.open(server, variant);
        things = newContainer(SEVERAL_RANGES, properties -> properties.getIndexingPolicy().setCompositeIndexes(List.of(List.of(
            new CompositePath().setPath("/name").setOrder(CompositePathSortOrder.ASCENDING),
            new CompositePath().setPath("/n").setOrder(CompositePathSortOrder.DESCENDING)))));
        IntStream.range(0, COUNT).forEach(n -> things.createItem(thing(n)));
    }

    static Thing thing(int n) {
        var part = new Thing.Part(n % 2 == 0 ? "even" : "odd", n / 4.0);
        return new Thing("" + n, "p" + n % 11, n, "name" + n % 3, List.of("t" + n % 2, "all"), part);
    }

    <T> List<T> sql(String text, Class<T> kind) {
        return all(things.queryItems(text, new CosmosQueryRequestOptions(), kind));
    }

    /** All pages, each asked for with the token of the one before, as a program does that was started again. */
    <T> List<T> pages(String text, int size, Class<T> kind) {
        List<T> found = new ArrayList<>();
        String token = null;
        do {
            var pages = things.queryItems(text, new CosmosQueryRequestOptions(), kind).iterableByPage(token, size);
            FeedResponse<T> page = pages.iterator().next();
            that(page.getResults().size() <= size, "no more than asked for");
            found.addAll(page.getResults());
            token = page.getContinuationToken();
        } while (token != null);
        return found;
    }

    public void pagesOfOnePartition() {
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p3"));
        List<Integer> found = new ArrayList<>();
        int pages = 0;
        var query = things.queryItems("SELECT VALUE c.n FROM c ORDER BY c.n", options, Integer.class);
        for (FeedResponse<Integer> page : query.iterableByPage(2)) {
            found.addAll(page.getResults());
            that(page.getRequestCharge() > 0, "a charge");
            pages++;
        }
        equal(List.of(3, 14, 25, 36, 47, 58), found);
        that(pages >= 3, "pages of two");
        var read = things.readAllItems(new PartitionKey("p4"), Thing.class);
        equal(List.of(4, 15, 26, 37, 48, 59), sorted(read.stream().map(Thing::n).toList()));
    }

    public void pagesOfAllPartitionsGoOnWhereTheyEnded() {
        var descending = numbers(0, COUNT).stream().sorted(Comparator.reverseOrder()).toList();
        equal(descending, pages("SELECT VALUE c.n FROM c ORDER BY c.n DESC", 7, Integer.class));
        equal(numbers(0, COUNT), sorted(pages("SELECT VALUE c.n FROM c", 7, Integer.class)));
        equal(numbers(10, 35), sorted(pages("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 25", 4, Integer.class)));
    }

    public void orderByTwoProperties() {
        var expected = IntStream.range(0, COUNT).mapToObj(Queries::thing)
            .sorted(Comparator.comparing(Thing::name).thenComparing(Thing::n, Comparator.reverseOrder())).map(Thing::n).toList();
        equal(expected, sql("SELECT VALUE c.n FROM c ORDER BY c.name, c.n DESC", Integer.class));
        equal(expected, pages("SELECT VALUE c.n FROM c ORDER BY c.name, c.n DESC", 8, Integer.class));
    }

    public void parametersAndConditions() throws Exception {
        var query = new SqlQuerySpec(
            "SELECT VALUE c.n FROM c WHERE c.part.kind = @kind AND c.n BETWEEN @low AND @high",
            new SqlParameter("@kind", "odd"), new SqlParameter("@low", 10), new SqlParameter("@high", 20));
        var found = things.queryItems(query, new CosmosQueryRequestOptions(), Integer.class);
        equal(List.of(11, 13, 15, 17, 19), sorted(found));
        String joined = "SELECT DISTINCT VALUE c.pk FROM c JOIN t IN c.tags WHERE t = 'all' AND c.pk < 'p10'";
        equal(List.of("p0", "p1"), sorted(sql(joined, String.class)));
        equal(10, sql("SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, 't1') AND c.n > 40", Thing.class).size());
        refused(400, () -> sql("SELECT VALUE c.n FRM c", Integer.class));
        refused(400, () -> sql("SELECT VALUE NONE(c.n) FROM c", Integer.class));
    }

    public void aggregatesGroupsAndDistinctValues() {
        equal(List.of(COUNT), sql("SELECT VALUE COUNT(1) FROM c", Integer.class));
        equal(List.of(COUNT * (COUNT - 1) / 2.0), sql("SELECT VALUE SUM(c.n) FROM c", Double.class));
        equal(List.of(29.5), sql("SELECT VALUE AVG(c.n) FROM c", Double.class));
        equal(List.of(0), sql("SELECT VALUE MIN(c.n) FROM c", Integer.class));
        equal(List.of(59), sql("SELECT VALUE MAX(c.n) FROM c", Integer.class));
        var names = List.of("name0", "name1", "name2");
        equal(names, sorted(sql("SELECT DISTINCT VALUE c.name FROM c", String.class)));
        equal(names, sql("SELECT DISTINCT VALUE c.name FROM c ORDER BY c.name", String.class));
        var groups = sql("SELECT c.name, COUNT(1) AS many, MAX(c.n) AS last FROM c GROUP BY c.name", JsonNode.class);
        var shown = groups.stream()
            .map(group -> group.get("name").asText() + " " + group.get("many").asInt() + " " + group.get("last").asInt()).toList();
        equal(List.of("name0 20 57", "name1 20 58", "name2 20 59"), sorted(shown));
        equal(List.of(3), sql("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.name FROM c)", Integer.class));
        var both = sql("SELECT COUNT(1) AS many, AVG(c.n) AS middle FROM c WHERE c.name = 'name1'", JsonNode.class).get(0);
        equal(20, both.get("many").asInt());
        equal(29.5, both.get("middle").asDouble());
    }

    public void topOffsetAndLimit() {
        equal(numbers(0, 5), sql("SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n", Integer.class));
        equal(numbers(12, 15), sql("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 12 LIMIT 3", Integer.class));
        equal(9, sql("SELECT TOP 9 VALUE c.n FROM c", Integer.class).size());
    }

    public void metricsOfAQuery() {
        var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("p1"))
            .setQueryMetricsEnabled(true).setIndexMetricsEnabled(true);
        var pages = things.queryItems("SELECT * FROM c WHERE c.n > 5", options, Thing.class).iterableByPage();
        FeedResponse<Thing> page = pages.iterator().next();
        that(page.getRequestCharge() > 0 && !page.getResults().isEmpty(), "rows and their charge");
        String told = page.getCosmosDiagnostics().toString();
        that(told.contains("retrievedDocumentCount") && told.contains("UtilizedSingleIndexes"), "query and index metrics: " + told);
    }
}
