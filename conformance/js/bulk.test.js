import assert from "node:assert/strict";
import { test } from "node:test";

import { all, ids, suite } from "./support.js";

const create = (id, pk, rest = {}) => ({ operationType: "Create", partitionKey: pk, resourceBody: { id, pk, ...rest } });

suite("bulk", (account) => {
  for (const throughput of [400, 30_000]) {
    test(`every operation over ranges of ${throughput} RU/s`, async () => {
      const container = await account.container({ throughput });
      const results = await container.items.executeBulkOperations(
        Array.from({ length: 250 }, (_, n) => create(String(n), `p${n % 17}`, { n })),
      );
      assert.deepEqual([...new Set(results.map((result) => result.response?.statusCode))], [201]);
      assert.equal((await ids(container)).length, 250);
      const mixed = await container.items.executeBulkOperations([
        { operationType: "Read", id: "0", partitionKey: "p0" },
        { operationType: "Upsert", partitionKey: "p1", resourceBody: { id: "1", pk: "p1", n: -1 } },
        { operationType: "Replace", id: "2", partitionKey: "p2", resourceBody: { id: "2", pk: "p2", n: -2 } },
        { operationType: "Patch", id: "3", partitionKey: "p3", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
        { operationType: "Delete", id: "4", partitionKey: "p4" },
        create("0", "p0"),
        { operationType: "Read", id: "absent", partitionKey: "p0" },
      ]);
      const status = ({ response, error }) => response?.statusCode ?? error?.code;
      assert.deepEqual(mixed.map(status), [200, 200, 200, 200, 204, 409, 404]);
      assert.equal(mixed[0].response.resourceBody.n, 0);
      assert.equal(mixed[3].response.resourceBody.n, 4);
      assert.equal((await ids(container)).length, 249);
    });
  }

  test("the older form answers in order", async () => {
    const container = await account.container({ throughput: 30_000 });
    const responses = await container.items.bulk(Array.from({ length: 60 }, (_, n) => create(String(n), `p${n}`, { n })));
    assert.deepEqual(responses.map((response) => response.statusCode), Array(60).fill(201));
    assert.deepEqual(responses.map((response) => response.resourceBody.n), Array.from({ length: 60 }, (_, n) => n));
    const mixed = await container.items.bulk([
      create("0", "p0"),
      { operationType: "Read", id: "1", partitionKey: "p1" },
      { operationType: "Delete", id: "absent", partitionKey: "p1" },
      create("new", "p1"),
    ]);
    assert.deepEqual(mixed.map((response) => response.statusCode), [409, 200, 404, 201]);
  });

  test("keys of every type", async () => {
    const container = await account.container({ throughput: 12_000 });
    const keys = ["text", "", 5, -0.5, true, false, null, "ünï 🚀"];
    const operations = keys.map((pk, n) => create(`k${n}`, pk));
    operations.push({ operationType: "Create", resourceBody: { id: "none" } });
    const responses = await container.items.bulk(operations);
    assert.deepEqual(responses.map((response) => response.statusCode), Array(9).fill(201));
    for (const [n, pk] of keys.entries()) assert.equal((await container.item(`k${n}`, pk).read()).statusCode, 200);
    assert.equal((await container.item("none", undefined).read()).statusCode, 200);
  });

  test("hierarchical and version one keys", async () => {
    for (const partitionKey of [
      { paths: ["/t", "/u"], kind: "MultiHash", version: 2 },
      { paths: ["/t"], kind: "Hash" },
    ]) {
      const container = await account.container({ partitionKey, throughput: 12_000 });
      const operations = Array.from({ length: 40 }, (_, n) => ({
        operationType: "Create",
        resourceBody: { id: String(n), t: `t${n}`, u: n },
      }));
      const responses = await container.items.bulk(operations);
      assert.deepEqual(responses.map((response) => response.statusCode), Array(40).fill(201));
      assert.equal((await all(container.items.readAll())).length, 40);
    }
  });
});
