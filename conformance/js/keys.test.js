import assert from "node:assert/strict";
import { test } from "node:test";

import { PartitionKeyBuilder } from "@azure/cosmos";

import { all, ids, missing, newId, refused, suite } from "./support.js";

const VALUES = ["text", "", "café 東京 🚀", 'q"\\', "a".repeat(100), "a".repeat(101), "a".repeat(2048),
  0, 5, -128, 5.5, 2 ** 53, 5e-324, Number.MAX_VALUE, true, false, null];
const NONE = new PartitionKeyBuilder().addNoneValue().build();

suite("partition keys", (account) => {
  for (const [name, partitionKey] of Object.entries({
    "version 1": { paths: ["/pk"], kind: "Hash" },
    "version 2": { paths: ["/pk"], kind: "Hash", version: 2 },
  })) {
    test(`values of every type, ${name}`, async () => {
      const container = await account.container({ partitionKey });
      for (const pk of VALUES) {
        await container.items.create({ id: "1", pk, n: 1 });
        assert.equal((await container.item("1", pk).read()).resource.pk, pk);
        assert.equal((await container.item("1", pk).replace({ id: "1", pk, n: 2 })).resource.n, 2);
        assert.equal((await container.item("1", pk).patch([{ op: "incr", path: "/n", value: 1 }])).resource.n, 3);
        assert.deepEqual((await all(container.items.query("SELECT * FROM c", { partitionKey: pk }))).map((item) => item.n), [3]);
      }
      assert.equal((await ids(container)).length, VALUES.length);
      for (const pk of VALUES) await container.item("1", pk).delete();
      assert.deepEqual(await ids(container), []);
      await refused(400, container.items.create({ id: "1", pk: "a".repeat(2049) }));
    });
  }

  test("null, undefined, empty and zero are four partitions", async () => {
    const container = await account.container();
    await container.items.create({ id: "1", is: "undefined" });
    for (const pk of [null, "", 0]) await container.items.create({ id: "1", pk, is: JSON.stringify(pk) });
    assert.equal((await container.item("1", undefined).read()).resource.is, "undefined");
    assert.equal((await container.item("1", NONE).read()).resource.is, "undefined");
    for (const pk of [null, "", 0]) assert.equal((await container.item("1", pk).read()).resource.is, JSON.stringify(pk));
    await container.item("1", undefined).delete();
    await missing(container, "1", undefined);
  });

  test("a header that contradicts the body is refused", async () => {
    const container = await account.container();
    await container.items.create({ id: "1", pk: "a" });
    await refused(400, container.item("1", "a").replace({ id: "1", pk: "b" }), { substatus: 1001 });
  });

  for (const throughput of [400, 30_000]) {
    test(`hierarchical keys, ${throughput} RU/s`, async () => {
      const partitionKey = { paths: ["/tenant", "/user", "/session"], kind: "MultiHash", version: 2 };
      const container = await account.container({ partitionKey, throughput });
      for (const tenant of ["t1", "t2"]) {
        for (const user of [1, 2]) {
          for (const session of [true, null]) {
            await container.items.create({ id: `${tenant}.${user}.${session}`, tenant, user, session });
          }
        }
      }
      const found = async (key) => (await all(container.items.query("SELECT * FROM c", { partitionKey: key }))).map((item) => item.id).sort();
      assert.equal((await container.item("t1.2.true", ["t1", 2, true]).read()).resource.user, 2);
      await missing(container, "t1.2.true", ["t1", 2, null]);
      assert.deepEqual(await found(["t1"]), ["t1.1.null", "t1.1.true", "t1.2.null", "t1.2.true"]);
      assert.deepEqual(await found(["t2", 1]), ["t2.1.null", "t2.1.true"]);
      assert.deepEqual(await found(["t2", 1, null]), ["t2.1.null"]);
      assert.deepEqual(await found(["absent"]), []);
      const patched = await container.item("t1.1.null", ["t1", 1, null]).patch([{ op: "set", path: "/n", value: 1 }]);
      assert.equal(patched.resource.n, 1);
      await container.item("t1.1.null", ["t1", 1, null]).delete();
      await refused(400, container.item("t1.1.true", ["t1", 1]).read());
      assert.equal((await ids(container)).length, 7);
    });
  }

  test("missing trailing levels are undefined", async () => {
    const container = await account.container({ partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 } });
    await container.items.create({ id: "1", a: "x" });
    const key = new PartitionKeyBuilder().addValue("x").addNoneValue().build();
    assert.equal((await container.item("1", key).read()).resource.a, "x");
    await missing(container, "1", ["x", null]);
  });

  test("a container without a key is a fixed one", async () => {
    const id = newId("fixed");
    const old = account.connect({
      plugins: [
        {
          on: "request",
          plugin: async (context, diagnostics, next) => {
            if (context.method === "POST" && context.resourceType === "colls") {
              context.headers["x-ms-version"] = "2018-06-18";
              context.body = JSON.stringify({ id });
            }
            return next(context);
          },
        },
      ],
    });
    await old.database(account.database.id).containers.create({ id });
    const container = account.database.container(id);
    assert.equal((await container.read()).resource.partitionKey.systemKey, true);
    await container.items.create({ id: "1", n: 1 });
    await refused(409, container.items.create({ id: "1", n: 1 }));
    assert.equal((await container.item("1", undefined).read()).resource.n, 1);
    assert.equal((await container.item("1", undefined).replace({ id: "1", n: 2 })).resource.n, 2);
    assert.equal((await container.items.batch([{ operationType: "Create", resourceBody: { id: "2" } }])).result[0].statusCode, 201);
    assert.equal((await container.items.bulk([{ operationType: "Create", resourceBody: { id: "3" } }]))[0].statusCode, 201);
    assert.deepEqual(await ids(container), ["1", "2", "3"]);
    await container.item("1", undefined).delete();
    await missing(container, "1", undefined);
  });
});
