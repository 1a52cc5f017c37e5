// Tests of azure-cosmos: clients in each mode, in a database of their own.

package conformance;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;

abstract class CosmosSuite extends Suite {
    static final PartitionKey A = new PartitionKey("a");
    /** Throughput with which a container has several ranges. */
    static final int SEVERAL_RANGES = 25_000;

    CosmosClient client;
    CosmosDatabase database;

    @Override
    List<String> variants() {
        return List.of("direct", "gateway");
    }

    @Override
    void open(Server server, String variant) throws Exception {
        super.open(server, variant);
        client = keep(builder().buildClient());
        String id = newId("db");
        client.createDatabase(id);
        database = client.getDatabase(id);
    }

    /** In direct mode the SDK's own defaults, with an address and a key. */
    CosmosClientBuilder builder() {
        return builder(server, server.key());
    }

    /** Without a key the caller names another credential. */
    CosmosClientBuilder builder(Server server, String key) {
        var builder = new CosmosClientBuilder().endpoint(server.endpoint("nosql"));
        if (key != null) builder.key(key);
        return variant.equals("gateway") ? builder.gatewayMode() : builder;
    }

    CosmosContainer newContainer() {
        return newContainer(0, properties -> { });
    }

    /** With the key /pk, and the throughput that the server gives where none is named. */
    CosmosContainer newContainer(int throughput, Consumer<CosmosContainerProperties> change) {
        return make(database, throughput, change);
    }

    static CosmosContainer make(CosmosDatabase database, int throughput, Consumer<CosmosContainerProperties> change) {
        var properties = new CosmosContainerProperties(newId("c"), "/pk");
        change.accept(properties);
        if (throughput == 0) {
            database.createContainer(properties);
        } else {
            database.createContainer(properties, ThroughputProperties.createManualThroughput(throughput));
        }
        return database.getContainer(properties.getId());
    }

    /** A container of several ranges with things 0 to count - 1, each of a key of its own. */
    CosmosContainer filled(int count) {
        CosmosContainer container = newContainer(SEVERAL_RANGES, properties -> { });
        IntStream.range(0, count).forEach(n -> container.createItem(new Thing("" + n, "p" + n, n)));
        return container;
    }
}
