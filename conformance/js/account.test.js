import assert from "node:assert/strict";
import { test } from "node:test";

import { OTHER_KEY, READONLY_KEY, ids, newId, refused, suite } from "./support.js";

suite("account", (account) => {
  test("describes itself with the endpoint the client used", async () => {
    const { resource } = await account.client.getDatabaseAccount();
    assert.equal(resource.consistencyPolicy, "Session");
    assert.deepEqual(
      resource.writableLocations.map((location) => location.databaseAccountEndpoint),
      [account.endpoint],
    );
    assert.equal(await account.client.getWriteEndpoint(), account.endpoint);
    assert.equal(await account.client.getReadEndpoint(), account.endpoint);
  });

  test("follows the host name of the request", async () => {
    const endpoint = account.server.endpoint(account.transport, "localhost");
    const client = account.connect({ endpoint });
    assert.equal(await client.getWriteEndpoint(), endpoint);
    const { resources } = await client.databases.readAll().fetchAll();
    assert.ok(resources.length > 0);
  });

  test("accepts a connection string", async () => {
    const client = account.connect({
      endpoint: undefined,
      key: undefined,
      connectionString: `AccountEndpoint=${account.endpoint};AccountKey=${account.server.key};`,
    });
    const { resources } = await client.databases.readAll().fetchAll();
    assert.ok(resources.length > 0);
  });

  test("refuses a wrong key with the text it signed", async () => {
    const stranger = account.connect({ key: OTHER_KEY });
    const error = await refused(401, stranger.databases.readAll().fetchAll());
    assert.match(error.message, /The input authorization token can't serve the request/);
  });

  test("lets a read-only key read and not write", async () => {
    const container = await account.container();
    await container.items.create({ id: "1", pk: "a" });
    const reader = account.connect({ key: READONLY_KEY });
    const there = reader.database(account.database.id).container(container.id);
    assert.equal((await there.item("1", "a").read()).statusCode, 200);
    assert.deepEqual(await ids(there), ["1"]);
    await refused(403, there.items.create({ id: "2", pk: "a" }));
    await refused(403, there.items.upsert({ id: "1", pk: "a" }));
    await refused(403, there.item("1", "a").replace({ id: "1", pk: "a" }));
    await refused(403, there.item("1", "a").patch([{ op: "set", path: "/n", value: 1 }]));
    await refused(403, there.item("1", "a").delete());
    await refused(403, there.items.batch([{ operationType: "Create", resourceBody: { id: "2", pk: "a" } }], "a"));
    await refused(403, reader.databases.create({ id: newId("db") }));
    await refused(403, there.delete());
    assert.deepEqual(await ids(container), ["1"]);
  });

  test("has a certificate that its own authority vouches for", async () => {
    const ca = await (await fetch(`${account.server.http}_explorer/emulator.pem`)).text();
    const client = account.connect({ agent: account.agent({ ca }) });
    const { statusCode } = await client.getDatabaseAccount();
    assert.equal(statusCode, 200);
    if (account.transport === "https") {
      const doubting = account.connect({ agent: account.agent({}) });
      await assert.rejects(doubting.getDatabaseAccount(), /certificate/);
    }
  });
});
