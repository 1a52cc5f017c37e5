// Feed ranges, the change feed and its processor.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.numbers;
import static conformance.Expect.sorted;
import static conformance.Expect.that;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;

public final class Feeds extends CosmosSuite {
    static final int COUNT = 40;

    static final class Walk<T> {
        final List<T> changes = new ArrayList<>();
        String token;

        Walk(CosmosContainer container, CosmosChangeFeedRequestOptions options, Class<T> kind) {
            for (FeedResponse<T> page : container.queryChangeFeed(options, kind).iterableByPage()) {
                changes.addAll(page.getResults());
                token = page.getContinuationToken();
            }
        }
    }

    static List<Integer> numbersOf(Walk<Thing> walk) {
        return sorted(walk.changes.stream().map(Thing::n).toList());
    }

    static CosmosChangeFeedRequestOptions after(String token) {
        return CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token);
    }

    public void rangesTogetherAreTheContainer() {
        CosmosContainer container = filled(COUNT);
        List<FeedRange> ranges = container.getFeedRanges();
        that(ranges.size() > 1, "several ranges");
        List<Integer> found = new ArrayList<>();
        for (FeedRange range : ranges) {
            // As text and back, as programs hand them to their workers.
            var options = new CosmosQueryRequestOptions().setFeedRange(FeedRange.fromString(range.toString()));
            found.addAll(Expect.all(container.queryItems("SELECT VALUE c.n FROM c", options, Integer.class)));
        }
        equal(numbers(0, COUNT), sorted(found));
    }

    public void changesFromTheBeginningAndOn() {
        CosmosContainer container = filled(COUNT);
        var options = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
        var first = new Walk<>(container, options.setMaxItemCount(6), Thing.class);
        equal(numbers(0, COUNT), numbersOf(first));
        container.upsertItem(new Thing("3", "p3", 1003));
        container.upsertItem(new Thing("30", "p30", 1030));
        equal(List.of(1003, 1030), numbersOf(new Walk<>(container, after(first.token), Thing.class)));
    }

    public void changesOfARangeOfAKeyAndFromNow() {
        CosmosContainer container = filled(COUNT);
        var options = CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange());
        var now = new Walk<>(container, options, Thing.class);
        equal(List.of(), now.changes);
        FeedRange key = FeedRange.forLogicalPartition(new PartitionKey("p5"));
        var ofKey = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(key);
        equal(List.of(5), numbersOf(new Walk<>(container, ofKey, Thing.class)));
        List<Integer> found = new ArrayList<>();
        for (FeedRange range : container.getFeedRanges()) {
            var ofRange = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range);
            found.addAll(numbersOf(new Walk<>(container, ofRange, Thing.class)));
        }
        equal(numbers(0, COUNT), sorted(found));
        container.upsertItem(new Thing("new", "p0", -1));
        equal(List.of(-1), numbersOf(new Walk<>(container, after(now.token), Thing.class)));
    }

    public void allVersionsAndDeletes() {
        CosmosContainer container = newContainer(0, properties -> properties.setChangeFeedPolicy(
            com.azure.cosmos.models.ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(8))));
        var options = CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange());
        var now = new Walk<>(container, options.allVersionsAndDeletes(), JsonNode.class);
        equal(List.of(), now.changes);
        container.createItem(new Thing("1", "a", 1));
        container.upsertItem(new Thing("1", "a", 2));
        container.deleteItem("1", A, new CosmosItemRequestOptions());
        var all = new Walk<>(container, after(now.token).allVersionsAndDeletes(), JsonNode.class);
        var kinds = all.changes.stream().map(change -> change.get("metadata").get("operationType").asText()).toList();
        equal(List.of("create", "replace", "delete"), kinds);
        equal(2, all.changes.get(1).get("current").get("n").asInt());
        equal("1", all.changes.get(2).get("metadata").get("id").asText());
    }

    public void twoProcessorsShareAllChanges() throws Exception {
        CosmosContainer container = filled(COUNT);
        var leases = new CosmosContainerProperties(newId("leases"), "/id");
        database.createContainer(leases);
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        try (CosmosAsyncClient own = builder().contentResponseOnWriteEnabled(true).buildAsyncClient()) {
            var mine = own.getDatabase(database.getId());
            var options = new ChangeFeedProcessorOptions()
                .setStartFromBeginning(true)
                .setFeedPollDelay(Duration.ofMillis(100))
                .setLeaseAcquireInterval(Duration.ofMillis(200));
            List<ChangeFeedProcessor> processors = Stream.of("one", "two").map(name -> new ChangeFeedProcessorBuilder()
                .hostName(name)
                .feedContainer(mine.getContainer(container.getId()))
                .leaseContainer(mine.getContainer(leases.getId()))
                .options(options)
                .handleLatestVersionChanges((List<ChangeFeedProcessorItem> changes) -> {
                    for (ChangeFeedProcessorItem change : changes) seen.add(change.getCurrent().get("n").asInt());
                })
                .buildChangeFeedProcessor()).toList();
            for (ChangeFeedProcessor processor : processors) processor.start().block();
            container.upsertItem(new Thing("late", "p1", 999));
            Expect.inTheEnd("every change is seen", () -> seen.size() == COUNT + 1);
            var states = processors.get(0).getCurrentState().block();
            equal(container.getFeedRanges().size(), states.size());
            for (ChangeFeedProcessor processor : processors) processor.stop().block();
        }
    }
}
