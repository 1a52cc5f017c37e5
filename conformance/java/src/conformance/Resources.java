// Databases, containers, keys, throughput, users and permissions.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.refused;
import static conformance.Expect.sorted;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosAsyncDatabase;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.PermissionMode;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import java.util.Base64;
import java.util.List;
import java.util.Map;

public final class Resources extends CosmosSuite {
    static final CosmosQueryRequestOptions NONE = new CosmosQueryRequestOptions();

    public void aKeyOfAnotherAccountIsRefused() {
        String other = Base64.getEncoder().encodeToString(new byte[64]);
        String why = "";
        try {
            builder(server, other).buildClient();
        } catch (RuntimeException refusal) {
            why = refusal.getMessage();
        }
        that(why.contains("The input authorization token can't serve the request"), "a refusal, not " + why);
    }

    public void databasesAreMadeFoundAndDeleted() throws Exception {
        String id = newId("db");
        equal(201, client.createDatabaseIfNotExists(id).getStatusCode());
        equal(200, client.createDatabaseIfNotExists(id).getStatusCode());
        refused(409, () -> client.createDatabase(id));
        that(client.readAllDatabases().stream().anyMatch(one -> one.getId().equals(id)), "it is listed");
        var query = new SqlQuerySpec("SELECT * FROM c WHERE c.id = @id", new SqlParameter("@id", id));
        equal(1L, client.queryDatabases(query, NONE).stream().count());
        equal(204, client.getDatabase(id).delete().getStatusCode());
        refused(404, () -> client.getDatabase(id).read());
    }

    public void containersAreMadeReplacedFoundAndDeleted() throws Exception {
        var policy = new IndexingPolicy()
            .setIncludedPaths(List.of(new IncludedPath("/*"))).setExcludedPaths(List.of(new ExcludedPath("/name/?")));
        var wanted = new CosmosContainerProperties(newId("c"), "/pk").setDefaultTimeToLiveInSeconds(3600).setIndexingPolicy(policy);
        database.createContainer(wanted, ThroughputProperties.createManualThroughput(1000));
        CosmosContainer container = database.getContainer(wanted.getId());
        var read = container.read().getProperties();
        equal(3600, read.getDefaultTimeToLiveInSeconds());
        equal(List.of("/pk"), read.getPartitionKeyDefinition().getPaths());
        that(read.getIndexingPolicy().getExcludedPaths().stream().anyMatch(path -> path.getPath().equals("/name/?")), "what is excluded");
        equal(null, container.replace(read.setDefaultTimeToLiveInSeconds(null)).getProperties().getDefaultTimeToLiveInSeconds());
        equal(200, database.createContainerIfNotExists(wanted.getId(), "/pk").getStatusCode());
        that(database.readAllContainers().stream().anyMatch(one -> one.getId().equals(wanted.getId())), "it is listed");
        equal(204, container.delete().getStatusCode());
        refused(404, () -> container.read());
    }

    public void aContainerMadeAgainIsFoundByAClientThatKnewTheOld() {
        CosmosContainer container = newContainer();
        container.createItem(new Thing("old", "a", 1));
        try (CosmosClient other = builder().buildClient()) {
            CosmosDatabase same = other.getDatabase(database.getId());
            same.getContainer(container.getId()).delete();
            same.createContainer(container.getId(), "/pk");
        }
        container.upsertItem(new Thing("new", "a", 2));
        equal(List.of("new"), Expect.all(container.queryItems("SELECT VALUE c.id FROM c", NONE, String.class)));
    }

    public void hierarchicalKeys() throws Exception {
        var definition = new PartitionKeyDefinition().setKind(PartitionKind.MULTI_HASH)
            .setVersion(PartitionKeyDefinitionVersion.V2).setPaths(List.of("/tenant", "/user", "/session"));
        String id = newId("c");
        database.createContainer(new CosmosContainerProperties(id, definition));
        CosmosContainer container = database.getContainer(id);
        for (String tenant : List.of("a", "b"))
            for (String user : List.of("u", "v"))
                for (String session : List.of("1", "2"))
                    container.createItem(Map.of("id", tenant + user + session, "tenant", tenant, "user", user, "session", session));
        PartitionKey whole = new PartitionKeyBuilder().add("a").add("u").add("1").build();
        equal(200, container.readItem("au1", whole, Map.class).getStatusCode());
        var prefix = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("a").add("u").build());
        equal(List.of("au1", "au2"), sorted(container.queryItems("SELECT VALUE c.id FROM c", prefix, String.class)));
        var tenants = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("b").build());
        equal(4, Expect.all(container.queryItems("SELECT VALUE c.id FROM c", tenants, String.class)).size());
        container.deleteItem("au1", whole, new CosmosItemRequestOptions());
        equal(List.of(7), Expect.all(container.queryItems("SELECT VALUE COUNT(1) FROM c", NONE, Integer.class)));
        equal(PartitionKeyDefinitionVersion.V2, container.read().getProperties().getPartitionKeyDefinition().getVersion());
    }

    public void uniqueKeys() throws Exception {
        var policy = new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/name"))));
        CosmosContainer container = newContainer(0, properties -> properties.setUniqueKeyPolicy(policy));
        container.createItem(Map.of("id", "1", "pk", "a", "name", "ann"));
        refused(409, () -> container.createItem(Map.of("id", "2", "pk", "a", "name", "ann")));
        container.createItem(Map.of("id", "2", "pk", "b", "name", "ann"));
    }

    public void itemsExpire() throws Exception {
        CosmosContainer container = newContainer(0, properties -> properties.setDefaultTimeToLiveInSeconds(-1));
        container.createItem(Map.of("id", "short", "pk", "a", "ttl", 1));
        container.createItem(Map.of("id", "long", "pk", "a"));
        String ids = "SELECT VALUE c.id FROM c";
        Expect.inTheEnd("it expires", () -> Expect.all(container.queryItems(ids, NONE, String.class)).equals(List.of("long")));
        refused(404, () -> container.readItem("short", A, Map.class));
    }

    public void throughputIsReadAndReplaced() throws Exception {
        CosmosContainer container = newContainer(1000, properties -> { });
        equal(1000, container.readThroughput().getProperties().getManualThroughput());
        var manual = ThroughputProperties.createManualThroughput(1500);
        equal(1500, container.replaceThroughput(manual).getProperties().getManualThroughput());
        that(container.readThroughput().getMinThroughput() >= 400, "the least that can be set");
        String id = newId("c");
        database.createContainer(new CosmosContainerProperties(id, "/pk"), ThroughputProperties.createAutoscaledThroughput(4000));
        CosmosContainer autoscaled = database.getContainer(id);
        equal(4000, autoscaled.readThroughput().getProperties().getAutoscaleMaxThroughput());
        autoscaled.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(6000));
        equal(6000, autoscaled.readThroughput().getProperties().getAutoscaleMaxThroughput());
        String shared = newId("shared");
        client.createDatabase(shared, ThroughputProperties.createManualThroughput(800));
        CosmosDatabase sharing = client.getDatabase(shared);
        equal(800, sharing.readThroughput().getProperties().getManualThroughput());
        CosmosContainer inside = make(sharing, 0, properties -> { });
        refused(400, () -> inside.readThroughput());
        sharing.delete();
    }

    public void usersAndPermissions() throws Exception {
        CosmosContainer container = newContainer();
        String id = newId("u");
        CosmosAsyncUser user = newUser(id);
        refused(409, () -> database.createUser(new CosmosUserProperties().setId(id)));
        make(user, permission("reading", container, PermissionMode.READ));
        refused(409, () -> make(user, permission("again", container, PermissionMode.ALL)));
        make(user, permission("all", newContainer(), PermissionMode.ALL));
        var all = user.readAllPermissions().toIterable();
        equal(List.of("all", "reading"), Expect.all(all).stream().map(CosmosPermissionProperties::getId).sorted().toList());
        that(database.readAllUsers().stream().anyMatch(each -> each.getId().equals(id)), "the user is listed");
        user.getPermission("all").delete(null).block();
        refused(404, () -> user.getPermission("all").read(null).block());
        user.delete().block();
        refused(404, () -> user.read().block());
    }

    public void resourceTokens() throws Exception {
        CosmosContainer container = newContainer();
        container.createItem(new Thing("1", "a", 1));
        container.createItem(new Thing("1", "b", 1));
        var reading = make(newUser(newId("u")), permission("reading", container, PermissionMode.READ));
        // Given as a list of permissions, this SDK finds no token for addresses by resource id, which it uses itself.
        try (CosmosClient own = builder(server, null).resourceToken(reading.getToken()).buildClient()) {
            CosmosContainer readable = own.getDatabase(database.getId()).getContainer(container.getId());
            equal("a", readable.readItem("1", A, Thing.class).getItem().pk());
            equal(2, Expect.all(readable.queryItems("SELECT * FROM c", NONE, Thing.class)).size());
            refused(403, () -> readable.upsertItem(new Thing("2", "a", 1)));
        }
        var one = permission("one", container, PermissionMode.ALL).setResourcePartitionKey(A);
        String token = make(newUser(newId("u")), one).getToken();
        try (CosmosClient own = builder(server, null).resourceToken(token).buildClient()) {
            CosmosContainer writable = own.getDatabase(database.getId()).getContainer(container.getId());
            writable.upsertItem(new Thing("2", "a", 2));
            equal(2, writable.readItem("2", A, Thing.class).getItem().n());
            refused(403, () -> writable.upsertItem(new Thing("2", "b", 1)));
        }
    }

    /** Only the asynchronous client has permissions. */
    CosmosAsyncUser newUser(String id) {
        CosmosAsyncDatabase same = keep(builder().buildAsyncClient()).getDatabase(database.getId());
        same.createUser(new CosmosUserProperties().setId(id)).block();
        return same.getUser(id);
    }

    static CosmosPermissionProperties make(CosmosAsyncUser user, CosmosPermissionProperties wanted) {
        return user.createPermission(wanted, null).block().getProperties();
    }

    static CosmosPermissionProperties permission(String id, CosmosContainer container, PermissionMode mode) {
        return new CosmosPermissionProperties().setId(id).setContainerName(container.getId()).setPermissionMode(mode);
    }
}
