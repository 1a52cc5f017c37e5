// Stored procedures, functions and triggers.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosScripts;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import java.util.List;

public final class Scripts extends CosmosSuite {
    static final CosmosQueryRequestOptions NONE = new CosmosQueryRequestOptions();

    static final String ADD = """
        function (id, n) {
          const context = getContext();
          const pk = "a";
          context.getCollection().createDocument(context.getCollection().getSelfLink(), { id, pk, n }, (error, made) => {
            if (error) throw error;
            console.log("made " + id);
            context.getResponse().setBody(made.n + 1);
          });
        }
        """;

    static final String STAMP = """
        function () {
          const request = getContext().getRequest();
          request.setBody({ ...request.getBody(), name: "stamped" });
        }
        """;

    static CosmosStoredProcedureRequestOptions inA() {
        return new CosmosStoredProcedureRequestOptions().setPartitionKey(A);
    }

    public void storedProcedures() throws Exception {
        CosmosContainer container = newContainer();
        CosmosScripts scripts = container.getScripts();
        scripts.createStoredProcedure(new CosmosStoredProcedureProperties("add", ADD));
        var add = scripts.getStoredProcedure("add");
        var answer = add.execute(List.of("1", 41), inA().setScriptLoggingEnabled(true));
        equal("42", answer.getResponseAsString());
        equal("made 1", answer.getScriptLog());
        equal(41, container.readItem("1", A, Thing.class).getItem().n());
        refused(400, () -> add.execute(List.of("1", 41), inA()));
        equal(List.of("add"), scripts.readAllStoredProcedures().stream().map(CosmosStoredProcedureProperties::getId).toList());
        var changed = add.read().getProperties();
        add.replace(changed.setBody("function () { getContext().getResponse().setBody(7); }"));
        equal("7", add.execute(List.of(), inA()).getResponseAsString());
        add.delete();
        refused(404, () -> add.read());
        refused(404, () -> add.execute(List.of(), inA()));
    }

    public void functionsInQueries() {
        CosmosContainer container = filled(10);
        CosmosScripts scripts = container.getScripts();
        scripts.createUserDefinedFunction(new CosmosUserDefinedFunctionProperties("twice", "function (n) { return 2 * n; }"));
        var found = container.queryItems("SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) > 13", NONE, Integer.class);
        equal(List.of(14, 16, 18), Expect.sorted(found));
        equal(1L, scripts.readAllUserDefinedFunctions().stream().count());
        scripts.getUserDefinedFunction("twice").delete();
    }

    public void triggers() throws Exception {
        CosmosContainer container = newContainer();
        CosmosScripts scripts = container.getScripts();
        var stamp = new CosmosTriggerProperties("stamp", STAMP);
        scripts.createTrigger(stamp.setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.CREATE));
        var refuse = new CosmosTriggerProperties("refuse", "function () { throw new Error('no'); }");
        scripts.createTrigger(refuse.setTriggerType(TriggerType.POST).setTriggerOperation(TriggerOperation.ALL));
        container.createItem(new Thing("1", "a", 1), A, new CosmosItemRequestOptions().setPreTriggerInclude(List.of("stamp")));
        equal("stamped", container.readItem("1", A, Thing.class).getItem().name());
        var refusing = new CosmosItemRequestOptions().setPostTriggerInclude(List.of("refuse"));
        refused(400, () -> container.createItem(new Thing("2", "a", 1), A, refusing));
        refused(404, () -> container.readItem("2", A, Thing.class));
        equal(2L, scripts.readAllTriggers().stream().count());
    }
}
