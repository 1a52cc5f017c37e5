// Partitions are split and merged under load, and no client notices.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAccumulator;

public final class Repartition extends CosmosSuite {
    static final int WRITERS = 4;
    static final int CHANGES = 12;
    static final int KEYS = 40;
    /** What the threads of one program do together, and how long one operation may take. */
    static final int OPERATIONS = 20_000;
    static final int THREADS = 10;
    static final long MILLISECONDS_MAX = 2_000;

    volatile boolean isOver;

    /** Splits and merges through the admin API. */
    final class Partitions {
        final String path;

        Partitions(CosmosContainer container) {
            path = "containers/" + database.getId() + "/" + container.getId() + "/partitions";
        }

        List<Integer> ids() throws Exception {
            List<Integer> ids = new ArrayList<>();
            for (JsonNode partition : server.admin(path, null).get("partitions")) ids.add(partition.get("id").asInt());
            return ids;
        }

        void split(int id) throws Exception {
            finish(server.admin(path + "/" + id + "/split", "{\"at\":\"midpoint\"}"));
        }

        void merge(List<Integer> ids) throws Exception {
            finish(server.admin(path + "/merge", "{\"ids\":" + ids + "}"));
        }

        void finish(JsonNode job) throws Exception {
            while (job.get("phase").asText().equals("preparing")) job = server.admin("jobs/" + job.get("id").asText(), null);
            equal("succeeded", job.get("phase").asText());
        }
    }

    /** Checks after every step that it sees what it wrote. */
    final class Writer implements Runnable {
        final int number;
        final CosmosContainer container;
        final Random chance;
        final Map<String, Integer> expected = new HashMap<>();
        volatile int steps;

        Writer(int number, CosmosContainer container) {
            this.number = number;
            this.container = container;
            chance = new Random(number);
        }

        @Override
        public void run() {
            while (!isOver) {
                step();
                steps++;
            }
        }

        void step() {
            String pk = "p" + chance.nextInt(KEYS);
            String id = number + "-" + chance.nextInt(20);
            var key = new PartitionKey(pk);
            switch (chance.nextInt(8)) {
                case 0 -> batch(pk, key);
                case 1 -> bulk();
                case 2 -> query(pk, new CosmosQueryRequestOptions().setPartitionKey(key));
                case 3 -> query("", new CosmosQueryRequestOptions());
                default -> {
                    container.upsertItem(new Thing(id, pk, steps));
                    expected.put(pk + "/" + id, steps);
                }
            }
            Integer last = expected.get(pk + "/" + id);
            if (last != null) equal(last, container.readItem(id, key, Thing.class).getItem().n());
        }

        void batch(String pk, PartitionKey key) {
            CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
            for (int n = 0; n < 3; n++) {
                batch.upsertItemOperation(new Thing(number + "-b" + n, pk, steps));
                expected.put(pk + "/" + number + "-b" + n, steps);
            }
            equal(200, container.executeCosmosBatch(batch).getStatusCode());
        }

        void bulk() {
            List<CosmosItemOperation> operations = new ArrayList<>();
            for (int n = 0; n < 6; n++) {
                String pk = "p" + n * 5;
                operations.add(CosmosBulkOperations.getUpsertItemOperation(new Thing(number + "-m", pk, steps), new PartitionKey(pk)));
                expected.put(pk + "/" + number + "-m", steps);
            }
            for (var answer : Batches.bulk(container, operations)) that(answer.getResponse().getStatusCode() < 300, "bulk is done");
        }

        void query(String pk, CosmosQueryRequestOptions options) {
            var found = container.queryItems("SELECT * FROM c WHERE STARTSWITH(c.id, '" + number + "-')", options, Thing.class);
            Map<String, Integer> wanted = new HashMap<>(expected);
            if (!pk.isEmpty()) wanted.keySet().removeIf(place -> !place.startsWith(pk + "/"));
            equal(wanted, places(Expect.all(found)));
        }
    }

    static Map<String, Integer> places(List<Thing> things) {
        Map<String, Integer> places = new HashMap<>();
        for (Thing thing : things) equal(null, places.put(thing.pk() + "/" + thing.id(), thing.n()));
        return places;
    }

    public void clientsNoticeNothing() throws Exception {
        CosmosContainer container = newContainer();
        var partitions = new Partitions(container);
        isOver = false;
        List<Writer> writers = new ArrayList<>();
        List<Future<?>> work = new ArrayList<>();
        ExecutorService executor = Executors.newFixedThreadPool(WRITERS);
        for (int n = 0; n < WRITERS; n++) {
            var own = keep(builder().buildClient()).getDatabase(database.getId()).getContainer(container.getId());
            writers.add(new Writer(n, own));
            work.add(executor.submit(writers.get(n)));
        }
        try {
            Random chance = new Random(7);
            for (int change = 0; change < CHANGES; change++) {
                List<Integer> ids = partitions.ids();
                if (ids.size() >= 5 || (ids.size() > 1 && chance.nextInt(10) < 4)) {
                    int at = chance.nextInt(ids.size() - 1);
                    partitions.merge(ids.subList(at, at + 2));
                } else {
                    partitions.split(ids.get(chance.nextInt(ids.size())));
                }
                List<Integer> goals = writers.stream().map(writer -> writer.steps + 10).toList();
                Expect.inTheEnd("writers go on", () -> {
                    for (int n = 0; n < WRITERS; n++) {
                        if (work.get(n).isDone()) return true;
                        if (writers.get(n).steps < goals.get(n)) return false;
                    }
                    return true;
                });
            }
        } finally {
            isOver = true;
            executor.shutdown();
        }
        for (Future<?> one : work) one.get(30, TimeUnit.SECONDS);
        Map<String, Integer> expected = new HashMap<>();
        for (Writer writer : writers) expected.putAll(writer.expected);
        var all = container.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), Thing.class);
        equal(expected, places(Expect.all(all)));
        var beginning = CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange());
        equal(expected, places(new Feeds.Walk<>(container, beginning, Thing.class).changes));
    }

    /** One client, as a program has it, of which many threads wait for answers at a time. */
    public void aProgramOfManyThreadsWaitsForNothing() throws Exception {
        CosmosContainer container = newContainer();
        var partitions = new Partitions(container);
        AtomicInteger done = new AtomicInteger();
        LongAccumulator slowest = new LongAccumulator(Math::max, 0);
        ExecutorService executor = Executors.newFixedThreadPool(THREADS);
        List<Future<Map<String, Integer>>> work = new ArrayList<>();
        for (int n = 0; n < THREADS; n++) {
            String prefix = n + "-";
            Random chance = new Random(n);
            work.add(executor.submit(() -> {
                Map<String, Integer> expected = new HashMap<>();
                for (int step = 0; step < OPERATIONS / THREADS; step++) {
                    long started = System.nanoTime();
                    operate(container, prefix, chance, step, expected);
                    slowest.accumulate(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started));
                    done.incrementAndGet();
                }
                return expected;
            }));
        }
        for (int change = 1; change <= 3; change++) {
            int goal = OPERATIONS / 4 * change;
            Expect.inTheEnd("operations are done", () -> {
                for (var one : work) if (one.isDone()) one.get();
                return done.get() >= goal;
            });
            List<Integer> ids = partitions.ids();
            if (change < 3) {
                partitions.split(ids.get(0));
            } else {
                partitions.merge(ids.subList(0, 2));
            }
        }
        executor.shutdown();
        Map<String, Integer> expected = new HashMap<>();
        for (Future<Map<String, Integer>> one : work) expected.putAll(one.get());
        equal(OPERATIONS, done.get());
        equal(2, partitions.ids().size());
        that(slowest.get() < MILLISECONDS_MAX, "the slowest operation took " + slowest.get() + " ms");
        var all = container.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), Thing.class);
        equal(expected, places(Expect.all(all)));
    }

    /** One operation on an item that no other thread writes. */
    static void operate(CosmosContainer container, String prefix, Random chance, int step, Map<String, Integer> expected) {
        String pk = "p" + chance.nextInt(KEYS);
        String id = prefix + chance.nextInt(20);
        var key = new PartitionKey(pk);
        Integer known = expected.get(pk + "/" + id);
        if (known == null) {
            container.createItem(new Thing(id, pk, step));
            expected.put(pk + "/" + id, step);
            return;
        }
        switch (step % 4) {
            case 0 -> {
                container.upsertItem(new Thing(id, pk, step));
                expected.put(pk + "/" + id, step);
            }
            case 1 -> {
                container.patchItem(id, key, CosmosPatchOperations.create().increment("/n", 1), Thing.class);
                expected.put(pk + "/" + id, known + 1);
            }
            default -> equal(known, container.readItem(id, key, Thing.class).getItem().n());
        }
    }
}
