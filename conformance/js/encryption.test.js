import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv } from "node:crypto";
import { test } from "node:test";

import { EncryptionAlgorithm, EncryptionQueryBuilder, EncryptionType } from "@azure/cosmos";

import { all, newId, refused, suite } from "./support.js";

/** Wraps keys with a secret of this process, as a key vault would with one of its own. */
const keyEncryptionKeyResolver = {
  encryptionKeyResolverName: "TEST_VAULT",
  wrapKey: async (id, algorithm, key) => crypt(createCipheriv, id, key),
  unwrapKey: async (id, algorithm, key) => crypt(createDecipheriv, id, key),
};

const crypt = (make, id, key) => {
  const cipher = make("aes-256-ctr", Buffer.from(id.padEnd(32, ".")), Buffer.alloc(16));
  return Buffer.concat([cipher.update(key), cipher.final()]);
};

const metadata = (value) => ({ type: "TEST_VAULT", name: "master", value, algorithm: "RSA-OAEP" });
const ALGORITHM = EncryptionAlgorithm.AEAD_AES_256_CBC_HMAC_SHA256;

suite("client-side encryption", (account) => {
  const includedPath = (path, clientEncryptionKeyId, encryptionType) => ({
    path,
    clientEncryptionKeyId,
    encryptionType,
    encryptionAlgorithm: ALGORITHM,
  });
  const keyed = async () => {
    const client = account.connect({ clientEncryptionOptions: { keyEncryptionKeyResolver } });
    const database = client.database(account.database.id);
    const id = newId("key");
    await database.createClientEncryptionKey(id, ALGORITHM, metadata("first"));
    return { database, id };
  };
  const encrypted = async () => {
    const { database, id } = await keyed();
    const includedPaths = [
      includedPath("/secret", id, EncryptionType.RANDOMIZED),
      includedPath("/name", id, EncryptionType.DETERMINISTIC),
    ];
    const clientEncryptionPolicy = { policyFormatVersion: 1, includedPaths };
    const created = await database.containers.create({ id: newId("c"), partitionKey: "/pk", clientEncryptionPolicy });
    return { database, id, container: created.container, clientEncryptionPolicy };
  };

  test("a key is made, read and wrapped anew", async () => {
    const { database, id } = await keyed();
    const { clientEncryptionKeyProperties: key } = await database.readClientEncryptionKey(id);
    assert.equal(key.id, id);
    assert.equal(key.encryptionAlgorithm, ALGORITHM);
    assert.deepEqual(key.encryptionKeyWrapMetadata, metadata("first"));
    const answer = await database.rewrapClientEncryptionKey(id, metadata("second"));
    const rewrapped = answer.clientEncryptionKeyProperties;
    assert.deepEqual(rewrapped.encryptionKeyWrapMetadata, metadata("second"));
    assert.notDeepEqual(rewrapped.wrappedDataEncryptionKey, key.wrappedDataEncryptionKey);
    await refused(409, database.createClientEncryptionKey(id, ALGORITHM, metadata("first")));
    await assert.rejects(database.readClientEncryptionKey("none"));
  });

  test("items are stored without what they hide", async () => {
    const { container } = await encrypted();
    const item = { id: "1", pk: "a", name: "Ada", secret: { n: [1, "two"] }, open: true };
    await container.items.create(item);
    const read = (await container.item("1", "a").read()).resource;
    assert.deepEqual([read.name, read.secret, read.open], [item.name, item.secret, true]);
    // A client without the key sees what the server has.
    const raw = (await account.database.container(container.id).item("1", "a").read()).resource;
    assert.ok(raw.open && raw.name !== "Ada" && !JSON.stringify(raw).includes("two"));
    const query = new EncryptionQueryBuilder("SELECT * FROM c WHERE c.name = @name");
    query.addParameter("@name", "Ada", "/name");
    const iterator = await container.items.getEncryptionQueryIterator(query);
    assert.deepEqual((await iterator.fetchAll()).resources.map((found) => found.id), ["1"]);
  });

  test("a policy stays as it was made", async () => {
    const { container, database, clientEncryptionPolicy } = await encrypted();
    const { resource } = await container.read();
    assert.deepEqual(resource.clientEncryptionPolicy, clientEncryptionPolicy);
    await container.replace({ ...resource, defaultTtl: 60 });
    const changed = { ...resource, clientEncryptionPolicy: { policyFormatVersion: 1, includedPaths: [] } };
    await refused(400, container.replace(changed), {
      text: /'clientEncryptionPolicy' cannot be changed as part of collection replace operation\./,
    });
    const missing = { policyFormatVersion: 1, includedPaths: [includedPath("/a", "none", EncryptionType.RANDOMIZED)] };
    await refused(
      400,
      database.containers.create({ id: newId("c"), partitionKey: "/pk", clientEncryptionPolicy: missing }),
      { text: /ClientEncryptionKey with id '\[none\]' does not exist\./ },
    );
    assert.ok((await all(database.containers.readAll())).length > 0);
  });
});
