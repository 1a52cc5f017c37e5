import assert from "node:assert/strict";
import { test } from "node:test";

import { all, eventually, ids, missing, refused, suite, tokenLsn } from "./support.js";

suite("unique keys, expiry and sessions", (account) => {
  test("unique keys hold for every write within a partition", async () => {
    const container = await account.container({ uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
    await container.items.create({ id: "1", pk: "a", email: "e1" });
    await container.items.create({ id: "2", pk: "a", email: "e2" });
    await container.items.create({ id: "1", pk: "b", email: "e1" });
    await refused(409, container.items.create({ id: "3", pk: "a", email: "e1" }));
    await refused(409, container.items.upsert({ id: "3", pk: "a", email: "e1" }));
    await refused(409, container.item("2", "a").replace({ id: "2", pk: "a", email: "e1" }));
    await refused(409, container.item("2", "a").patch([{ op: "set", path: "/email", value: "e1" }]));
    await container.item("1", "a").delete();
    await container.items.create({ id: "3", pk: "a", email: "e1" });
  });

  test("items expire and are gone everywhere", async () => {
    const container = await account.container({ defaultTtl: -1 });
    await container.items.create({ id: "short", pk: "a", ttl: 1 });
    await container.items.create({ id: "kept", pk: "a" });
    assert.ok(await eventually(async () => (await container.item("short", "a").read()).statusCode === 404));
    assert.deepEqual(await ids(container), ["kept"]);
    await missing(container, "short", "a");
    assert.equal((await container.items.create({ id: "short", pk: "a" })).statusCode, 201);
    for (const ttl of [null, 0, -5, "x"]) await refused(400, container.items.create({ id: "bad", pk: "a", ttl }));
  });

  test("the default ttl applies and can be overruled", async () => {
    const container = await account.container({ defaultTtl: 1 });
    await container.items.create({ id: "short", pk: "a" });
    await container.items.create({ id: "kept", pk: "a", ttl: -1 });
    assert.ok(await eventually(async () => (await container.item("short", "a").read()).statusCode === 404));
    assert.deepEqual(await ids(container), ["kept"]);
  });

  test("session tokens grow and are repeated by reads", async () => {
    const container = await account.container();
    const tokens = [];
    for (const id of ["1", "2", "3"]) tokens.push((await container.items.create({ id, pk: "a" })).headers["x-ms-session-token"]);
    assert.ok(tokenLsn(tokens[0]) < tokenLsn(tokens[1]) && tokenLsn(tokens[1]) < tokenLsn(tokens[2]));
    assert.equal((await container.item("1", "a").read()).headers["x-ms-session-token"], tokens[2]);
  });

  test("a session client reads its own writes over ranges", async () => {
    const client = account.connect({ consistencyLevel: "Session" });
    const { id } = await account.container({ throughput: 30_000 });
    const container = client.database(account.database.id).container(id);
    for (let n = 0; n < 20; n++) {
      await container.items.upsert({ id: "1", pk: `p${n % 6}`, n });
      assert.equal((await container.item("1", `p${n % 6}`).read()).resource.n, n);
    }
  });

  test("a session client reads its own writes after answers of any range", async () => {
    const client = account.connect({ consistencyLevel: "Session" });
    const { id } = await account.container({ throughput: 15_000 });
    const container = client.database(account.database.id).container(id);
    assert.equal((await container.readPartitionKeyRanges().fetchAll()).resources.length, 3);
    for (let n = 0; n < 12; n++) {
      const count = Math.min(n + 1, 6);
      await container.items.upsert({ id: "1", pk: `p${n % 6}`, n });
      const query = { query: "SELECT VALUE c.n FROM c WHERE c.n = @n", parameters: [{ name: "@n", value: n }] };
      assert.deepEqual(await all(container.items.query(query)), [n]);
      await container.read();
      assert.equal((await all(container.items.readAll())).length, count);
      assert.equal((await container.item("1", `p${n % 6}`).read()).resource.n, n);
      const earlier = Math.max(0, n - 1);
      assert.equal((await container.item("1", `p${earlier % 6}`).read()).resource.n, earlier);
    }
  });

  test("a token from the future is not available", async () => {
    const container = await account.container();
    const { headers } = await container.items.create({ id: "1", pk: "a" });
    const prefix = headers["x-ms-session-token"].split("#")[0];
    const client = account.connect({ connectionPolicy: { enableEndpointDiscovery: false } });
    const response = await client
      .database(account.database.id)
      .container(container.id)
      .item("1", "a")
      .read({ sessionToken: `${prefix}#99999999` });
    assert.equal(response.statusCode, 404);
    assert.equal(response.substatus, 1002);
  });
});
