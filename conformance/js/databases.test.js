import assert from "node:assert/strict";
import { test } from "node:test";

import { all, newId, refused, suite } from "./support.js";

suite("databases", (account) => {
  test("create, read, find and delete", async () => {
    const id = newId("db");
    const created = await account.client.databases.create({ id });
    assert.equal(created.statusCode, 201);
    assert.ok(created.requestCharge > 0);
    const read = await created.database.read();
    assert.equal(read.statusCode, 200);
    assert.equal(read.resource.id, id);
    assert.equal(read.resource._self, `dbs/${read.resource._rid}/`);
    assert.equal(read.resource._colls, "colls/");
    assert.ok((await all(account.client.databases.readAll())).some((entry) => entry.id === id));
    const found = await all(
      account.client.databases.query({
        query: "SELECT * FROM root r WHERE r.id = @id",
        parameters: [{ name: "@id", value: id }],
      }),
    );
    assert.deepEqual(found.map((entry) => entry.id), [id]);
    assert.equal((await created.database.delete()).statusCode, 204);
    await refused(404, created.database.read());
  });

  test("duplicate, missing and bad names", async () => {
    await refused(409, account.client.databases.create({ id: account.database.id }));
    await refused(404, account.client.database(newId("absent")).read(), { text: /Resource Not Found/ });
    await refused(404, account.client.database(newId("absent")).delete());
    await refused(400, account.client.databases.create({ id: "x".repeat(256) }));
    const again = await account.client.databases.createIfNotExists({ id: account.database.id });
    assert.equal(again.statusCode, 200);
  });

  test("names with spaces, percent signs and other alphabets", async () => {
    for (const id of ["with space", "100%", "a%20b", "ünïcode 鱀", "a+b&c=d"].map((name) => `${newId()} ${name}`)) {
      const { database } = await account.client.databases.create({ id });
      const { container } = await database.containers.create({ id: "c %2F ü", partitionKey: "/pk" });
      await container.items.create({ id: "1", pk: "a" });
      assert.equal((await container.item("1", "a").read()).resource.id, "1");
      assert.equal((await database.read()).resource.id, id);
      await database.delete();
    }
  });

  test("deletion takes the containers along", async () => {
    const { database } = await account.client.databases.create({ id: newId("db") });
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    await database.delete();
    await refused(404, container.read());
    await account.client.databases.create({ id: database.id });
    assert.deepEqual(await all(database.containers.readAll()), []);
    await database.delete();
  });
});
