import assert from "node:assert/strict";
import { test } from "node:test";

import { ids, missing, refused, suite, withoutSystem } from "./support.js";

const ITEM = { id: "1", pk: "a", n: 1, nested: { list: [1, "two", null, true] } };

suite("items", (account) => {
  test("create and read", async () => {
    const container = await account.container();
    const created = await container.items.create(ITEM);
    assert.equal(created.statusCode, 201);
    assert.deepEqual(withoutSystem(created.resource), ITEM);
    const read = await container.item("1", "a").read();
    assert.equal(read.statusCode, 200);
    assert.deepEqual(read.resource, created.resource);
    assert.equal(read.etag, read.resource._etag);
    assert.ok(read.activityId);
    assert.equal(read.requestCharge, 1);
    assert.ok(created.requestCharge > 1);
    assert.ok(read.headers["x-ms-session-token"]);
    assert.equal(read.headers["x-ms-content-path"], (await container.read()).resource._rid);
  });

  test("create refuses duplicates and bad bodies", async () => {
    const container = await account.container();
    await container.items.create(ITEM);
    const conflict = await refused(409, container.items.create({ ...ITEM, n: 2 }), { text: /already exists/ });
    assert.ok(conflict.headers["x-ms-session-token"]);
    await refused(400, container.items.create({ pk: "a" }, { disableAutomaticIdGeneration: true }));
    await refused(400, container.items.create({ id: "", pk: "a" }, { disableAutomaticIdGeneration: true }));
    assert.deepEqual(await ids(container), ["1"]);
    const { resource } = await container.items.create({ pk: "a" });
    assert.equal((await container.item(resource.id, "a").read()).statusCode, 200);
  });

  test("missing items", async () => {
    const container = await account.container();
    await container.items.create(ITEM);
    const response = await missing(container, "2", "a");
    assert.ok(response.activityId);
    await missing(container, "1", "b");
    await refused(404, container.item("2", "a").replace({ ...ITEM, id: "2" }));
    await refused(404, container.item("2", "a").delete());
    await refused(404, container.item("2", "a").patch([{ op: "set", path: "/n", value: 1 }]));
  });

  test("replace, rename and what it may not change", async () => {
    const container = await account.container();
    const { resource: created } = await container.items.create(ITEM);
    const replaced = await container.item("1", "a").replace({ id: "1", pk: "a", fresh: true });
    assert.equal(replaced.statusCode, 200);
    assert.deepEqual(withoutSystem(replaced.resource), { id: "1", pk: "a", fresh: true });
    assert.notEqual(replaced.resource._etag, created._etag);
    assert.equal(replaced.resource._rid, created._rid);
    await refused(400, container.item("1", "a").replace({ id: "1", pk: "b" }), { substatus: 1001 });
    const renamed = await container.item("1", "a").replace({ id: "2", pk: "a" });
    assert.equal(renamed.resource.id, "2");
    await missing(container, "1", "a");
    await container.items.create(ITEM);
    await refused(409, container.item("1", "a").replace({ id: "2", pk: "a" }));
  });

  test("upsert", async () => {
    const container = await account.container();
    assert.equal((await container.items.upsert(ITEM)).statusCode, 201);
    const replaced = await container.items.upsert({ ...ITEM, n: 2 });
    assert.equal(replaced.statusCode, 200);
    assert.equal(replaced.resource.n, 2);
    assert.equal((await container.items.upsert({ ...ITEM, pk: "b" })).statusCode, 201);
    assert.deepEqual(await ids(container), ["1", "1"]);
  });

  test("delete", async () => {
    const container = await account.container();
    await container.items.create(ITEM);
    assert.equal((await container.item("1", "a").delete()).statusCode, 204);
    await missing(container, "1", "a");
    await refused(404, container.item("1", "a").delete());
  });

  test("delete by partition key", async () => {
    const container = await account.container();
    for (const id of ["1", "2", "3"]) {
      await container.items.create({ id, pk: "gone" });
      await container.items.create({ id, pk: "kept" });
    }
    const response = await container.deleteAllItemsForPartitionKey("gone");
    assert.equal(response.statusCode, 200);
    await missing(container, "1", "gone");
    assert.equal((await ids(container)).length, 3);
  });

  test("conditions", async () => {
    const container = await account.container();
    const item = container.item("1", "a");
    const { resource: first } = await container.items.create(ITEM);
    const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
    const ifNoneMatch = (condition) => ({ accessCondition: { type: "IfNoneMatch", condition } });
    const unchanged = await item.read(ifNoneMatch(first._etag));
    assert.equal(unchanged.statusCode, 304);
    assert.ok(unchanged.requestCharge >= 1);
    const { resource: second } = await item.replace({ ...ITEM, n: 2 }, ifMatch(first._etag));
    assert.equal((await item.read(ifNoneMatch(first._etag))).resource.n, 2);
    const stale = ifMatch(first._etag);
    await refused(412, item.replace({ ...ITEM, n: 3 }, stale), { text: /One of the specified pre-condition is not met/ });
    await refused(412, container.items.upsert({ ...ITEM, n: 3 }, stale));
    await refused(412, item.patch([{ op: "incr", path: "/n", value: 1 }], stale), { substatus: 0 });
    const error = await refused(412, item.delete(stale));
    assert.ok(error.headers["x-ms-session-token"]);
    assert.equal((await item.delete(ifMatch(second._etag))).statusCode, 204);
    assert.equal((await container.items.upsert(ITEM, stale)).statusCode, 201);
  });

  test("ids with awkward characters are reachable", async () => {
    const container = await account.container();
    for (const id of [
      "with inner space",
      " leading",
      "trailing ",
      "trailing  ",
      "WithUnicode鱀",
      "🚀",
      "With,=.:~+-@()^${}[]!_Chars",
      "With%20Percent",
      "With%E9%B1%80Percent",
      "100%",
      "a?b",
      "a&b=c",
      "quo'te\"s",
      "a*b|c<d>",
      "BQE1D3PdG4N4bzU9TKaCIM3qc0TVcZ2-Y3jnsRfwdHC1ombkX3F1dot-SG0-UTq9AZVRoAA=",
      "x".repeat(1023),
    ]) {
      const created = await container.items.create({ id, pk: "a" });
      assert.equal(created.resource.id, id);
      assert.equal((await container.item(id, "a").read()).resource._rid, created.resource._rid, id);
      assert.equal((await container.item(id, "a").replace({ id, pk: "a", n: 1 })).resource.n, 1);
      assert.equal((await container.item(id, "a").delete()).statusCode, 204);
      await missing(container, id, "a");
    }
    await refused(400, container.items.create({ id: "x".repeat(1024), pk: "a" }));
  });

  test("values come back as they were sent", async () => {
    const container = await account.container();
    const values = [
      0, -1, 0.1, 5e-324, Number.MAX_VALUE, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER,
      "", "\u0001\t\n\r", 'q"\\/', "ÄÖ 東京 🚀", [], {}, null, true, [[[{ a: [{}] }]]], { "": 1, "a/b": 2, "with space": 3 },
    ];
    const { resource } = await container.items.create({ id: "1", pk: "a", values });
    assert.deepEqual(resource.values, values);
    assert.deepEqual((await container.item("1", "a").read()).resource.values, values);
  });

  test("items up to two megabytes", async () => {
    const container = await account.container();
    const text = "x".repeat(2 * 1024 * 1024 - 400);
    await container.items.create({ id: "1", pk: "a", text });
    assert.equal((await container.item("1", "a").read()).resource.text.length, text.length);
    await refused(413, container.items.create({ id: "2", pk: "a", text: text + "x".repeat(500) }));
    await refused(413, container.items.upsert({ id: "1", pk: "a", text: text + "x".repeat(500) }));
    assert.deepEqual(await ids(container), ["1"]);
  });

  test("containers made again are new containers", async () => {
    const container = await account.container();
    const stale = account.connect().database(account.database.id).container(container.id);
    await stale.items.create({ id: "1", pk: "a" });
    const before = (await container.read()).resource._rid;
    await container.delete();
    await account.container({ id: container.id });
    assert.notEqual((await container.read()).resource._rid, before);
    await missing(stale, "1", "a");
    await stale.items.create({ id: "2", pk: "a" });
    assert.deepEqual(await ids(container), ["2"]);
    const intended = { initialHeaders: { "x-ms-cosmos-intended-collection-rid": before } };
    await refused(400, container.items.create({ id: "3", pk: "a" }, intended), { substatus: 1024 });
  });
});
