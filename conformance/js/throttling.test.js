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
