import assert from "node:assert/strict";
import { test } from "node:test";

import { PermissionMode } from "@azure/cosmos";

import { all, ids, newId, refused, suite } from "./support.js";

suite("permissions", (account) => {
  const newUser = async () => (await account.database.users.create({ id: newId("u") })).user;
  const permit = async (user, permissionMode, resource, resourcePartitionKey) =>
    (await user.permissions.create({ id: newId("p"), permissionMode, resource, resourcePartitionKey })).resource;
  /** A client that has nothing but tokens. */
  const holder = (options) => account.connect({ key: undefined, ...options }).database(account.database.id);

  test("users are made, replaced, found and deleted", async () => {
    const name = newId("u");
    const { user, resource } = await account.database.users.create({ id: name });
    assert.equal(resource._permissions, "permissions/");
    await refused(409, account.database.users.create({ id: name }));
    const other = newId("u");
    assert.equal((await user.replace({ id: other })).resource.id, other);
    assert.equal((await account.database.users.upsert({ id: other })).statusCode, 200);
    const query = { query: "SELECT * FROM root r WHERE r.id=@id", parameters: [{ name: "@id", value: other }] };
    assert.deepEqual((await all(account.database.users.query(query))).map((found) => found.id), [other]);
    await account.database.user(other).delete();
    await refused(404, account.database.user(other).read());
  });

  test("permissions are made, replaced, found and deleted", async () => {
    const [container, user] = [await account.container(), await newUser()];
    const made = await permit(user, PermissionMode.Read, container.url, ["a"]);
    assert.equal(made.permissionMode, PermissionMode.Read);
    assert.deepEqual(made.resourcePartitionKey, ["a"]);
    const permission = user.permission(made.id);
    const replaced = await permission.replace({ ...made, permissionMode: PermissionMode.All });
    assert.equal(replaced.resource.permissionMode, PermissionMode.All);
    assert.notEqual((await permission.read()).resource._token, undefined);
    assert.equal((await all(user.permissions.readAll())).length, 1);
    await permission.delete();
    await refused(404, permission.read());
  });

  test("a token of a container reads and does not write", async () => {
    const [container, user] = [await account.container(), await newUser()];
    await container.items.create({ id: "1", pk: "a" });
    const { _token } = await permit(user, PermissionMode.Read, container.url);
    const there = holder({ resourceTokens: { [container.url]: _token } }).container(container.id);
    assert.equal((await there.read()).resource.id, container.id);
    assert.equal((await there.item("1", "a").read()).statusCode, 200);
    assert.deepEqual(await ids(there), ["1"]);
    assert.equal((await all(there.items.query("SELECT * FROM c ORDER BY c.id"))).length, 1);
    await refused(403, there.items.create({ id: "2", pk: "a" }));
    await refused(403, there.item("1", "a").delete());
    await refused(403, there.delete());
  });

  test("a token of one key reads and writes just that", async () => {
    const [container, user] = [await account.container(), await newUser()];
    await container.items.create({ id: "1", pk: "b" });
    const { _token } = await permit(user, PermissionMode.All, container.url, ["a"]);
    const there = holder({ resourceTokens: { [container.url]: _token } }).container(container.id);
    await there.items.create({ id: "1", pk: "a" });
    await there.item("1", "a").replace({ id: "1", pk: "a", n: 1 });
    await there.item("1", "a").patch([{ op: "incr", path: "/n", value: 1 }]);
    assert.equal((await there.item("1", "a").read()).resource.n, 2);
    await there.items.batch([{ operationType: "Upsert", resourceBody: { id: "2", pk: "a" } }], "a");
    const found = await all(there.items.query("SELECT * FROM c", { partitionKey: "a" }));
    assert.equal(found.length, 2);
    await there.item("2", "a").delete();
    await refused(403, there.items.create({ id: "2", pk: "b" }));
    await refused(403, there.item("1", "b").read());
    await refused(403, there.item("1", "b").delete());
    await refused(403, there.items.batch([{ operationType: "Read", id: "1" }], "b"));
    await refused(403, all(there.items.query("SELECT * FROM c", { partitionKey: "b" })));
    await refused(403, all(there.items.query("SELECT * FROM c")));
    await refused(403, all(there.items.readAll()));
    assert.deepEqual(await ids(container), ["1", "1"]);
  });

  test("a client takes a feed of permissions", async () => {
    const [container, user] = [await account.container(), await newUser()];
    const { resource: item } = await container.items.create({ id: "1", pk: "a" });
    await permit(user, PermissionMode.Read, container.url);
    await permit(user, PermissionMode.All, container.item("1", "a").url);
    const permissionFeed = await all(user.permissions.readAll());
    const there = holder({ permissionFeed }).container(container.id);
    assert.equal((await there.item("1", "a").read()).resource._rid, item._rid);
    await there.item("1", "a").replace({ id: "1", pk: "a", n: 1 });
    await refused(403, there.items.create({ id: "2", pk: "a" }));
    await container.items.create({ id: "taken", pk: "a" });
    for (const id of ["taken", "free"]) {
      await refused(403, there.item("1", "a").replace({ id, pk: "a" }));
    }
    assert.equal((await there.item("1", "a").read()).resource.n, 1);
  });

  test("a client without any authorization is refused", async () => {
    await refused(401, holder({ resourceTokens: {} }).read());
  });
});
