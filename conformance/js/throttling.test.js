import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { BulkOperationType } from "@azure/cosmos";

import { Server } from "./server.js";
import { Account, all, newId, refused } from "./support.js";

const RETRIES = "x-ms-throttle-retry-count";
// Costs about 50 RU, so that a slow machine asks for more than 400 RU/s, too.
const LARGE = "x".repeat(100_000);
// Costs more than two seconds of 400 RU/s.
const HUGE = "x".repeat(1_900_000);

const accounts = ["http", "https"].map((transport) => new Account(transport));
let server;

before(async () => {
  server = await Server.start("--memory");
  for (const account of accounts) await account.open(server);
});

after(async () => {
  for (const account of accounts) account.close();
  await server?.stop();
});

for (const account of accounts) {
  describe(`throttling over ${account.transport}`, () => {
    const small = () => account.container({}, { offerThroughput: 400 });

    /** The container as a client sees it that gives up at the first refusal. */
    const withoutRetries = (container) =>
      account
        .connect({
          connectionPolicy: {
            enableBackgroundEndpointRefreshing: false,
            retryOptions: { maxRetryAttemptCount: 0, fixedRetryIntervalInMilliseconds: 0, maxWaitTimeInSeconds: 0 },
          },
        })
        .database(account.database.id)
        .container(container.id);

    const createMany = async (container, text) => {
      for (let n = 0; n < 200; n++) await container.items.create({ id: `${n}`, pk: "a", text });
    };

    test("the SDK waits and gets through", async () => {
      const container = await small();
      let retries = 0;
      for (let n = 0; n < 20; n++) {
        const { headers } = await container.items.create({ id: `${n}`, pk: "a", text: LARGE });
        retries += Number(headers[RETRIES] ?? 0);
      }
      assert.ok(retries > 0, "1,000 RU fit into no second");
      const query = container.items.query("SELECT VALUE c.id FROM c", { partitionKey: "a" });
      assert.equal((await all(query)).length, 20);
    });

    test("bulk waits and gets through", async () => {
      const container = await small();
      const operations = Array.from({ length: 20 }, (_, n) => ({
        operationType: BulkOperationType.Create,
        partitionKey: "a",
        resourceBody: { id: `${n}`, pk: "a", text: LARGE },
      }));
      const results = await container.items.executeBulkOperations(operations);
      assert.deepEqual(
        results.map((result) => result.response?.statusCode),
        operations.map(() => 201),
      );
    });

    test("hundreds of small operations in bulk get through", async () => {
      const container = await small();
      const operations = Array.from({ length: 300 }, (_, n) => ({
        operationType: BulkOperationType.Create,
        partitionKey: `p${n % 97}`,
        resourceBody: { id: `${n}`, pk: `p${n % 97}` },
      }));
      const results = await container.items.executeBulkOperations(operations);
      assert.deepEqual([...new Set(results.map((result) => result.response?.statusCode))], [201]);
      assert.equal((await all(container.items.query("SELECT VALUE c.id FROM c"))).length, 300);
    });

    test("without retries the refusal surfaces", async () => {
      const container = withoutRetries(await small());
      const refusal = await refused(429, createMany(container, LARGE), { substatus: 3200, text: /Request rate is large/ });
      assert.ok(refusal.retryAfterInMs >= 1);
      assert.equal(Number(refusal.headers["x-ms-request-charge"]), 0.38);
    });

    test("more throughput counts at once", async () => {
      const container = await small();
      const hasty = withoutRetries(container);
      await refused(429, createMany(hasty, HUGE));
      const { resource: offer } = await container.readOffer();
      offer.content.offerThroughput = 10_000;
      await account.client.offer(offer.id).replace(offer);
      // What takes seconds to pay back at 400 RU/s takes less than a tenth of one at 10,000.
      await hasty.items.create({ id: newId(), pk: "a" }).catch((error) => {
        assert.equal(error.code, 429);
        assert.ok(error.retryAfterInMs <= 100, error);
      });
    });

    test("an offer can have a budget per minute", async () => {
      const container = await small();
      const { resource: offer } = await container.readOffer();
      assert.equal(offer.content.offerIsRUPerMinuteThroughputEnabled, false);
      offer.content.offerIsRUPerMinuteThroughputEnabled = true;
      await account.client.offer(offer.id).replace(offer);
      assert.equal((await container.readOffer()).resource.content.offerIsRUPerMinuteThroughputEnabled, true);
      // 4,000 RU of the minute and the 400 of the second are enough for 60 large items.
      const hasty = withoutRetries(container);
      for (let n = 0; n < 60; n++) await hasty.items.create({ id: `${n}`, pk: "a", text: LARGE });
    });
  });
}

describe("throttling with the SDK's defaults", () => {
  const account = new Account("http");
  const name = (...parts) => parts.join("-");
  const small = (id) => ({ id, pk: id, text: "x".repeat(100) });

  before(() => account.open(server));
  after(() => account.close());

  // The bucket that was full at first, and what comes while the client gets going.
  const FIRST = 800;

  /**
   * Runs `work` on a container with 400 RU/s. How far what was served is from that: too much since the start, or else
   * after the first requests.
   */
  async function deviation(work) {
    const container = await account.container({}, { offerThroughput: 400 });
    await container.read();
    let units = 0;
    let mark;
    const started = performance.now();
    await work(container, (response) => {
      units += response.requestCharge;
      if (units >= FIRST) mark ??= { units, at: performance.now() };
      return response;
    });
    const ended = performance.now();
    const tooMuch = (units - 400) / (0.4 * (ended - started)) - 1;
    return tooMuch > 0 ? tooMuch : Math.min(0, (units - mark.units) / (0.4 * (ended - mark.at)) - 1);
  }

  /** Every call of `work` must be served, at the rate. A busy machine may need another attempt for the rate. */
  async function atTheRate(work) {
    const deviations = [];
    do deviations.push(await deviation(work));
    while (Math.abs(deviations.at(-1)) >= 0.05 && deviations.length < 3);
    assert.ok(Math.abs(deviations.at(-1)) < 0.05, deviations.join(" "));
  }

  test("a thousand upserts at once get through", () =>
    atTheRate((container, note) =>
      Promise.all(Array.from({ length: 1000 }, (_, n) => container.items.upsert(small(name(n))).then(note))),
    ));

  test("fifty at once with queries and deletes get through", () =>
    atTheRate(async (container, note) => {
      const work = async (n) => {
        const ids = Array.from({ length: 4 }, (_, i) => name(n, i));
        for (const id of ids) note(await container.items.upsert(small(id)));
        note(await container.item(ids[0], ids[0]).read());
        for (const id of ids.slice(0, 2)) {
          const query = container.items.query("SELECT * FROM c WHERE c.text != ''", { partitionKey: id });
          const page = note(await query.fetchAll());
          assert.deepEqual(page.resources.map((item) => item.id), [id]);
        }
        for (const id of ids.slice(1)) note(await container.item(id, id).delete());
      };
      await Promise.all(Array.from({ length: 50 }, (_, n) => work(n)));
    }));

  test("a large item gets its turn among small ones", () =>
    atTheRate(async (container, note) => {
      const upserts = async (n) => {
        for (let i = 0; i < 20; i++) note(await container.items.upsert(small(name(n, i))));
      };
      const large = async () => {
        for (let i = 0; i < 6; i++) note(await container.items.upsert({ ...small(name("large", i)), text: LARGE }));
      };
      await Promise.all([large(), ...Array.from({ length: 16 }, (_, n) => upserts(n))]);
    }));
});
