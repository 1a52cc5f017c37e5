import assert from "node:assert/strict";
import { test } from "node:test";

import { ids, refused, suite, tokenLsn } from "./support.js";

const item = (id, rest = {}) => ({ id, pk: "a", ...rest });
const create = (id, rest) => ({ operationType: "Create", resourceBody: item(id, rest) });
const codes = (response) => response.result.map((result) => result.statusCode);

suite("batch", (account) => {
  test("every operation, seen by the later ones", async () => {
    const container = await account.container();
    for (const id of ["old1", "old2", "old3"]) await container.items.create(item(id, { n: 1 }));
    const response = await container.items.batch(
      [
        create("new"),
        { operationType: "Upsert", resourceBody: item("up") },
        { operationType: "Replace", id: "old1", resourceBody: item("old1", { n: 5 }) },
        { operationType: "Patch", id: "old2", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
        { operationType: "Read", id: "old2" },
        { operationType: "Delete", id: "old3" },
      ],
      "a",
    );
    assert.equal(response.code, 200);
    assert.deepEqual(codes(response), [201, 201, 200, 200, 200, 204]);
    assert.equal(response.result[4].resourceBody.n, 2);
    assert.ok(response.result.every((result) => result.requestCharge > 0));
    assert.deepEqual(await ids(container), ["new", "old1", "old2", "up"]);
  });

  test("a failure undoes everything", async () => {
    const container = await account.container();
    const failed = await container.items.batch([create("1"), { operationType: "Delete", id: "absent" }], "a");
    assert.equal(failed.code, 207);
    assert.deepEqual(codes(failed), [424, 404]);
    const conflict = await container.items.batch([create("1"), create("2"), create("1"), create("3")], "a");
    assert.deepEqual(codes(conflict), [424, 424, 409, 424]);
    const stale = { operationType: "Replace", id: "1", resourceBody: item("1"), ifMatch: '"stale"' };
    assert.deepEqual(codes(await container.items.batch([create("1"), stale], "a")), [424, 412]);
    const foreign = { operationType: "Create", resourceBody: { id: "1", pk: "b" } };
    assert.deepEqual(codes(await container.items.batch([create("1"), foreign], "a")), [424, 400]);
    assert.deepEqual(await ids(container), []);
  });

  test("minimal answers leave out the bodies only", async () => {
    const container = await account.container();
    const minimal = { contentResponseOnWriteEnabled: false };
    const operations = [create("1"), { operationType: "Upsert", resourceBody: item("2") }];
    const response = await container.items.batch(operations, "a", minimal);
    assert.deepEqual(codes(response), [201, 201]);
    assert.ok(response.result.every((result) => result.resourceBody === undefined && result.eTag));
    assert.deepEqual(await ids(container), ["1", "2"]);
  });

  test("limits", async () => {
    const container = await account.container();
    await refused(400, container.items.batch([], "a"), { text: /Batch request has no operations/ });
    const operations = Array.from({ length: 101 }, (_, n) => create(String(n)));
    await assert.rejects(container.items.batch(operations, "a"), /more than 100 operations/);
    const text = "x".repeat(1_100_000);
    await refused(413, container.items.batch([create("1", { text }), create("2", { text })], "a"));
    assert.deepEqual(await ids(container), []);
    assert.equal((await container.items.batch(operations.slice(0, 100), "a")).code, 200);
    assert.equal((await ids(container)).length, 100);
  });

  test("one batch is one step of the session", async () => {
    const container = await account.container();
    const before = await container.items.create(item("0"));
    const response = await container.items.batch([create("1"), create("2")], "a");
    assert.ok(tokenLsn(response.headers["x-ms-session-token"]) > tokenLsn(before.headers["x-ms-session-token"]));
  });

  test("hierarchical keys", async () => {
    const container = await account.container({ partitionKey: { paths: ["/t", "/u"], kind: "MultiHash", version: 2 } });
    const operations = ["1", "2"].map((id) => ({ operationType: "Create", resourceBody: { id, t: "x", u: 5 } }));
    assert.deepEqual(codes(await container.items.batch(operations, ["x", 5])), [201, 201]);
    assert.equal((await container.item("2", ["x", 5]).read()).resource.id, "2");
  });
});
