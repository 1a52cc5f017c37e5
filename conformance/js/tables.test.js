// The Table API through @azure/data-tables, in both flavours.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  TableTransaction,
  generateTableSas,
  odata,
} from "@azure/data-tables";

import { Server } from "./server.js";
import { newId } from "./support.js";

const STORAGE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

const newTable = () => newId("t").replaceAll("-", "");
const keys = (entities) => entities.map((each) => `${each.partitionKey}/${each.rowKey}`);

async function all(iterator) {
  const found = [];
  for await (const each of iterator) found.push(each);
  return found;
}

/** Expects the service to refuse with `status` and `code` in the body. */
async function refused(status, code, promise) {
  const error = await promise.then(
    (answer) => assert.fail(`expected ${status}, got ${JSON.stringify(answer)}`),
    (reason) => reason,
  );
  assert.equal(error.statusCode, status, error);
  if (code) assert.equal(error.details?.odataError?.code ?? error.code, code, JSON.stringify(error.details));
  return error;
}

for (const flavour of ["storage", "cosmos"]) {
  describe(`tables, ${flavour} flavour`, () => {
    let server, url, credential, service;

    before(async () => {
      server = await Server.start("--memory", "--throttling", "off");
      if (flavour === "storage") {
        url = server.endpoints.table_storage.replace(/\/$/, "");
        credential = new AzureNamedKeyCredential("devstoreaccount1", STORAGE_KEY);
      } else {
        url = `http://localhost:${new URL(server.endpoints.table).port}`;
        credential = new AzureNamedKeyCredential("localhost", server.key);
      }
      service = new TableServiceClient(url, credential, OPTIONS);
    });
    after(() => server?.stop());

    async function table() {
      const client = new TableClient(url, newTable(), credential, OPTIONS);
      await client.createTable();
      return client;
    }

    test("tables are created, listed and deleted", async () => {
      const name = newTable();
      await service.createTable(name);
      await service.createTable(name);
      const found = await all(service.listTables({ queryOptions: { filter: odata`TableName eq ${name}` } }));
      assert.deepEqual(found.map((each) => each.name), [name]);
      await service.deleteTable(name);
      const client = new TableClient(url, name, credential, OPTIONS);
      await refused(404, "TableNotFound", client.createEntity({ partitionKey: "p", rowKey: "r" }));
    });

    test("every type comes back", async () => {
      const client = await table();
      const sent = {
        partitionKey: "p",
        rowKey: "r",
        text: "it's ü",
        small: 5,
        large: 9007199254740993n,
        ratio: 0.5,
        whole: { type: "Double", value: "3" },
        yes: false,
        when: new Date("2020-02-29T12:30:01.500Z"),
        guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
        bytes: new Uint8Array([0, 255]),
      };
      await client.createEntity(sent);
      const read = await client.getEntity("p", "r");
      for (const name of ["text", "small", "large", "ratio", "yes", "when", "guid"]) {
        assert.deepEqual(read[name], sent[name], name);
      }
      assert.equal(read.whole, 3);
      assert.deepEqual([...read.bytes], [0, 255]);
      assert.match(read.etag, /^W\/"datetime'/);
      await refused(409, "EntityAlreadyExists", client.createEntity(sent));
      await refused(404, "ResourceNotFound", client.getEntity("p", "other"));
    });

    test("merge, replace, upsert and versions", async () => {
      const client = await table();
      const key = { partitionKey: "p", rowKey: "r" };
      const plain = async () => {
        const { etag, timestamp, "odata.metadata": _, ...rest } = await client.getEntity("p", "r");
        return rest;
      };
      const { etag } = await client.createEntity({ ...key, a: 1, b: 2 });
      await client.updateEntity({ ...key, b: 3 }, "Merge");
      assert.deepEqual(await plain(), { ...key, a: 1, b: 3 });
      await refused(412, "UpdateConditionNotSatisfied", client.updateEntity({ ...key, b: 4 }, "Replace", { etag }));
      await client.upsertEntity({ ...key, c: 5 }, "Replace");
      assert.deepEqual(await plain(), { ...key, c: 5 });
      await refused(412, "UpdateConditionNotSatisfied", client.deleteEntity("p", "r", { etag }));
      await client.deleteEntity("p", "r");
      await refused(404, "ResourceNotFound", client.deleteEntity("p", "r"));
    });

    test("filters, selection and pages", async () => {
      const client = await table();
      for (const [p, r, n] of [["b", "1", 3n], ["a", "2", 2n], ["a", "1", 1n]]) {
        await client.createEntity({ partitionKey: p, rowKey: r, n, name: `it's ${n}`, day: new Date(Number(n)) });
      }
      const find = (filter, select) => all(client.listEntities({ queryOptions: { filter, select } }));
      assert.deepEqual(keys(await find()), ["a/1", "a/2", "b/1"]);
      assert.deepEqual(keys(await find(odata`PartitionKey eq ${"a"} and RowKey gt ${"1"}`)), ["a/2"]);
      assert.deepEqual(keys(await find(odata`n ge ${2n}`)), ["a/2", "b/1"]);
      assert.deepEqual(keys(await find("n ge 2")), ["a/2", "b/1"]);
      assert.deepEqual(keys(await find(odata`name eq ${"it's 3"}`)), ["b/1"]);
      assert.deepEqual(keys(await find(odata`day lt ${new Date(2)}`)), ["a/1"]);
      const [only] = await find("RowKey eq '2'", ["n"]);
      assert.deepEqual([only.n, only.name, only.rowKey], [2n, undefined, undefined]);
      const pages = await all(client.listEntities().byPage({ maxPageSize: 2 }));
      assert.deepEqual(pages.map((page) => page.length), [2, 1]);
      await refused(400, "InvalidInput", find("n ge"));
      await refused(501, "NotImplemented", find("startswith(name, 'it')"));
    });

    test("transactions", async () => {
      const client = await table();
      const one = new TableTransaction();
      for (const rowKey of ["1", "2", "3"]) one.createEntity({ partitionKey: "p", rowKey, n: 1 });
      const done = await client.submitTransaction(one.actions);
      assert.equal(done.status, 202);
      assert.deepEqual(done.subResponses.map((each) => each.status), [204, 204, 204]);
      assert.match(done.getResponseForEntity("2").etag, /^W\//);
      const two = new TableTransaction();
      two.upsertEntity({ partitionKey: "p", rowKey: "4" }, "Merge");
      two.updateEntity({ partitionKey: "p", rowKey: "1", m: 2 }, "Merge");
      two.deleteEntity("p", "3");
      await client.submitTransaction(two.actions);
      assert.deepEqual(keys(await all(client.listEntities())), ["p/1", "p/2", "p/4"]);
      const failing = new TableTransaction();
      failing.createEntity({ partitionKey: "p", rowKey: "5" });
      failing.createEntity({ partitionKey: "p", rowKey: "1" });
      await refused(409, "EntityAlreadyExists", client.submitTransaction(failing.actions));
      assert.deepEqual(keys(await all(client.listEntities())), ["p/1", "p/2", "p/4"]);
    });

    test("keys of all sorts", async () => {
      const client = await table();
      for (const key of ["it's", "100%", "a b", "=(x),", "ü☃", "+&:@", "%25"]) {
        await client.createEntity({ partitionKey: key, rowKey: key, n: 1 });
        assert.equal((await client.getEntity(key, key)).rowKey, key);
        await client.updateEntity({ partitionKey: key, rowKey: key, n: 2 }, "Merge");
        await client.deleteEntity(key, key);
      }
    });

    test("a signature for one table", async () => {
      const client = await table();
      await client.createEntity({ partitionKey: "p", rowKey: "r" });
      const token = generateTableSas(client.tableName, credential, {
        permissions: { query: true },
        expiresOn: new Date(Date.now() + 600_000),
      });
      const granted = new TableClient(url, client.tableName, new AzureSASCredential(token), OPTIONS);
      assert.deepEqual(keys(await all(granted.listEntities())), ["p/r"]);
      const code = flavour === "cosmos" ? "Forbidden" : "AuthorizationPermissionMismatch";
      await refused(403, code, granted.createEntity({ partitionKey: "p", rowKey: "s" }));
      const wrong = new AzureNamedKeyCredential(credential.name, "d3Jvbmc=");
      const stranger = new TableClient(url, client.tableName, wrong, OPTIONS);
      await refused(403, "AuthenticationFailed", all(stranger.listEntities()));
    });
  });
}
