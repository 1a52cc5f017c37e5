import assert from "node:assert/strict";
import { test } from "node:test";

import { all, newId, refused, suite } from "./support.js";

const ETAG_PATH = '/"_etag"/?';

suite("containers", (account) => {
  const create = (definition, options) =>
    account.database.containers.create({ id: newId("c"), partitionKey: "/pk", ...definition }, options);

  test("create fills in the defaults of the service", async () => {
    const { statusCode, resource } = await create();
    assert.equal(statusCode, 201);
    assert.deepEqual(resource.indexingPolicy.includedPaths, [{ path: "/*" }]);
    assert.deepEqual(resource.indexingPolicy.excludedPaths, [{ path: ETAG_PATH }]);
    assert.equal(resource.indexingPolicy.indexingMode, "consistent");
    assert.equal(resource.indexingPolicy.automatic, true);
    assert.equal(resource.conflictResolutionPolicy.mode, "LastWriterWins");
    assert.deepEqual(resource.geospatialConfig, { type: "Geography" });
    assert.equal(resource.defaultTtl, undefined);
  });

  test("read, list, query and delete", async () => {
    const { container } = await create();
    assert.equal((await container.read()).resource.id, container.id);
    assert.ok((await all(account.database.containers.readAll())).some((entry) => entry.id === container.id));
    const found = await all(account.database.containers.query(`SELECT * FROM root r WHERE r.id = '${container.id}'`));
    assert.equal(found.length, 1);
    assert.equal((await container.delete()).statusCode, 204);
    await refused(404, container.read());
    await refused(404, container.items.create({ id: "1", pk: "a" }));
  });

  test("duplicate, missing and badly specified", async () => {
    const { container } = await create();
    await refused(409, create({ id: container.id }));
    await refused(404, account.database.container(newId("absent")).read());
    await refused(404, account.client.database(newId("absent")).containers.create({ id: "c" }), { substatus: 1003 });
    await refused(400, create({ partitionKey: { paths: "/pk", kind: "Hash" } }));
    await refused(400, create({ partitionKey: { paths: ["/a", "/b", "/c", "/d"], kind: "MultiHash", version: 2 } }));
    await refused(400, create({ partitionKey: { paths: ["/a"], kind: "Nonsense", version: 2 } }));
    await refused(400, create({ id: "x".repeat(256) }));
  });

  test("default ttl", async () => {
    for (const defaultTtl of [-1, 1, 86_400]) assert.equal((await create({ defaultTtl })).resource.defaultTtl, defaultTtl);
    for (const defaultTtl of [null, 0, -10, 1.5, "5"]) await refused(400, create({ defaultTtl }));
  });

  test("indexing policies are completed", async () => {
    const policy = async (indexingPolicy) => (await create({ indexingPolicy })).resource.indexingPolicy;
    const none = await policy({ indexingMode: "none", automatic: false });
    assert.equal(none.indexingMode, "none");
    assert.deepEqual(none.includedPaths ?? [], []);
    assert.equal((await policy({ indexingMode: "Consistent" })).indexingMode, "consistent");
    const excluded = await policy({ includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/big/*" }] });
    assert.deepEqual(excluded.excludedPaths.map((entry) => entry.path), ["/big/*", ETAG_PATH]);
    const composite = [[{ path: "/a", order: "ascending" }, { path: "/b", order: "descending" }]];
    assert.deepEqual((await policy({ compositeIndexes: composite })).compositeIndexes, composite);
    await refused(400, create({ indexingPolicy: { indexingMode: "sometimes" } }));
    await refused(400, create({ indexingPolicy: { includedPaths: [{ path: "no-slash" }] } }));
  });

  test("spatial indexes need their types", async () => {
    const spatialIndexes = [{ path: "/location/?", types: [] }];
    await refused(400, create({ indexingPolicy: { spatialIndexes } }), { text: /spatial data types array cannot be empty/ });
  });

  test("replace follows the rules", async () => {
    const uniqueKeyPolicy = { uniqueKeys: [{ paths: ["/email"] }] };
    const { container, resource } = await create({ uniqueKeyPolicy });
    const indexingPolicy = { ...resource.indexingPolicy, excludedPaths: [{ path: "/big/*" }] };
    const replaced = await container.replace({ ...resource, defaultTtl: 100, indexingPolicy });
    assert.equal(replaced.statusCode, 200);
    assert.equal(replaced.resource.defaultTtl, 100);
    assert.equal(replaced.resource._rid, resource._rid);
    await refused(400, container.replace({ ...resource, partitionKey: { paths: ["/other"], kind: "Hash", version: 2 } }));
    await refused(400, container.replace({ ...resource, id: newId("other") }));
    await refused(403, container.replace({ ...resource, uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/other"] }] } }));
    const absent = newId("absent");
    await refused(404, account.database.container(absent).replace({ ...resource, id: absent }));
  });

  test("replace honours If-Match", async () => {
    const { container, resource } = await create();
    const stale = { accessCondition: { type: "IfMatch", condition: resource._etag } };
    await container.replace({ ...resource, defaultTtl: 100 }, stale);
    await refused(412, container.replace({ ...resource, defaultTtl: 200 }, stale));
  });

  test("partition key definitions read back", async () => {
    const hash = { paths: ["/pk"], kind: "Hash" };
    for (const partitionKey of [
      { ...hash, version: 2 },
      { paths: ["/a/b"], kind: "Hash", version: 2 },
      { paths: ["/a", "/b", "/c"], kind: "MultiHash", version: 2 },
    ]) {
      const { container } = await create({ partitionKey });
      assert.deepEqual((await container.read()).resource.partitionKey, partitionKey);
    }
    const { container } = await create({ partitionKey: hash });
    assert.equal((await container.read()).resource.partitionKey.version, undefined);
  });

  test("quota comes on request", async () => {
    const container = await account.container();
    await container.items.create({ id: "1", pk: "a" });
    const { headers } = await container.read({ populateQuotaInfo: true });
    assert.match(headers["x-ms-resource-quota"], /collectionSize=10485760;/);
    assert.match(headers["x-ms-resource-usage"], /documentsCount=1;/);
  });
});
