import assert from "node:assert/strict";
import { test } from "node:test";

import { ids, refused, suite } from "./support.js";

const BULK = `function (items) {
  var collection = getContext().getCollection(), count = 0;
  create();
  function create() {
    if (!collection.createDocument(collection.getSelfLink(), items[count], created)) getContext().getResponse().setBody(count);
  }
  function created(err) {
    if (err) throw err;
    if (++count < items.length) create();
    else getContext().getResponse().setBody(count);
  }
}`;

suite("scripts", (account) => {
  test("procedures are resources", async () => {
    const { scripts } = await account.container();
    const { resource: made } = await scripts.storedProcedures.create({ id: "p", body: "function () {}" });
    assert.equal(made.body, "function () {}");
    await refused(409, scripts.storedProcedures.create({ id: "p", body: "x" }));
    assert.deepEqual((await scripts.storedProcedure("p").read()).resource, made);
    const query = { query: "SELECT * FROM root r WHERE r.id=@id", parameters: [{ name: "@id", value: "p" }] };
    assert.deepEqual((await scripts.storedProcedures.query(query).fetchAll()).resources, [made]);
    assert.deepEqual((await scripts.storedProcedures.readAll().fetchAll()).resources, [made]);
    const { resource: replaced } = await scripts.storedProcedure("p").replace({ id: "p", body: "y" });
    assert.equal(replaced.body, "y");
    await scripts.storedProcedure("p").delete();
    await refused(404, scripts.storedProcedure("p").read());
  });

  test("triggers and functions are resources", async () => {
    const { scripts } = await account.container();
    const { resource: trigger } = await scripts.triggers.create({ id: "t", body: "x", triggerType: "Pre", triggerOperation: "All" });
    assert.equal(trigger.triggerType, "Pre");
    assert.deepEqual((await scripts.triggers.readAll().fetchAll()).resources, [trigger]);
    await scripts.trigger("t").delete();
    const { resource: made } = await scripts.userDefinedFunctions.create({ id: "f", body: "x" });
    assert.deepEqual((await scripts.userDefinedFunction("f").read()).resource, made);
    await scripts.userDefinedFunction("f").delete();
    assert.deepEqual((await scripts.userDefinedFunctions.readAll().fetchAll()).resources, []);
  });

  test("a procedure inserts all or nothing", async () => {
    const container = await account.container();
    await container.scripts.storedProcedures.create({ id: "bulk", body: BULK });
    const bulk = container.scripts.storedProcedure("bulk");
    const items = Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, pk: "a" }));
    assert.equal((await bulk.execute("a", [items])).resource, 50);
    assert.equal((await ids(container)).length, 50);
    const failed = await refused(400, bulk.execute("a", [[{ id: "new", pk: "a" }, { id: "0", pk: "a" }]]));
    assert.equal(failed.substatus, 409);
    assert.ok(!(await ids(container)).includes("new"));
  });

  test("errors carry their numbers, logs come when asked for", async () => {
    const { scripts } = await account.container();
    await scripts.storedProcedures.create({ id: "throws", body: "function () { throw new Error(1234, 'why'); }" });
    const failed = await refused(400, scripts.storedProcedure("throws").execute("a"));
    assert.equal(failed.substatus, 1234);
    assert.match(failed.message ?? failed.body.message, /why/);
    await scripts.storedProcedures.create({ id: "log", body: "function (x) { console.log('a %s', x); __.response.setBody(x); }" });
    const logged = await scripts.storedProcedure("log").execute("a", ["b c"], { enableScriptLogging: true });
    assert.equal(logged.resource, "b c");
    assert.equal(decodeURIComponent(logged.headers["x-ms-documentdb-script-log-results"]), "a b c");
  });

  test("triggers run with the write that names them", async () => {
    const container = await account.container();
    const body = "function () { var r = getContext().getRequest(), b = r.getBody(); b.stamped = true; r.setBody(b); }";
    await container.scripts.triggers.create({ id: "stamp", body, triggerType: "Pre", triggerOperation: "Create" });
    const { resource } = await container.items.create({ id: "1", pk: "a" }, { preTriggerInclude: "stamp" });
    assert.equal(resource.stamped, true);
    await refused(400, container.items.create({ id: "2", pk: "a" }, { preTriggerInclude: "none" }));
    await refused(400, container.item("1", "a").delete({ preTriggerInclude: "stamp" }));
  });

  test("functions are called by queries", async () => {
    const container = await account.container();
    for (const n of [1, 2, 3]) await container.items.create({ id: `${n}`, pk: `${n}`, n });
    await container.scripts.userDefinedFunctions.create({ id: "double", body: "function (x) { return x * 2; }" });
    const query = "SELECT VALUE udf.double(c.n) FROM c WHERE udf.double(c.n) > 2 ORDER BY c.n";
    assert.deepEqual((await container.items.query(query).fetchAll()).resources, [4, 6]);
  });
});
