import assert from "node:assert/strict";
import { test } from "node:test";

import { all, newId, refused, suite } from "./support.js";

suite("offers", (account) => {
  const create = (options) => account.database.containers.create({ id: newId("c"), partitionKey: "/pk", ...options });
  const offerOf = async (container) => (await container.readOffer()).resource;

  test("a container has a default offer", async () => {
    const { container } = await create();
    const offer = await offerOf(container);
    assert.equal(offer.content.offerThroughput, 400);
    assert.equal(offer.offerVersion, "V2");
    assert.ok(offer._self.includes(offer.id));
    assert.equal(offer.offerResourceId, (await container.read()).resource._rid);
  });

  test("manual throughput is read, queried and replaced", async () => {
    const { container } = await create({ throughput: 1000 });
    const offer = await offerOf(container);
    assert.equal(offer.content.offerThroughput, 1000);
    const listed = await all(account.client.offers.readAll());
    assert.ok(listed.some((entry) => entry.id === offer.id));
    const query = { query: "select * FROM root r WHERE r.id=@id", parameters: [{ name: "@id", value: offer.id }] };
    assert.deepEqual((await all(account.client.offers.query(query))).map((entry) => entry.id), [offer.id]);
    offer.content.offerThroughput = 1100;
    const replaced = await account.client.offer(offer.id).replace(offer);
    assert.equal(replaced.resource.content.offerThroughput, 1100);
    assert.equal((await offerOf(container)).content.offerThroughput, 1100);
    assert.equal((await account.client.offer(offer.id).read()).resource.content.offerThroughput, 1100);
  });

  test("autoscale is read and replaced", async () => {
    const { container } = await create({ maxThroughput: 5000 });
    const offer = await offerOf(container);
    assert.equal(offer.content.offerAutopilotSettings.maxThroughput, 5000);
    offer.content.offerAutopilotSettings.maxThroughput = 7000;
    await account.client.offer(offer.id).replace(offer);
    assert.equal((await offerOf(container)).content.offerAutopilotSettings.maxThroughput, 7000);
  });

  test("shared throughput belongs to the database", async () => {
    const { database } = await account.client.databases.create({ id: newId("db"), throughput: 600 });
    assert.equal((await database.readOffer()).resource.content.offerThroughput, 600);
    const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
    assert.equal((await container.readOffer()).resource, undefined);
    await database.delete();
    assert.equal((await account.database.readOffer()).resource, undefined);
  });

  test("bad throughput is refused", async () => {
    await refused(400, create({ throughput: 100 }));
    await refused(400, create({ throughput: 450 }));
    await refused(400, create({ maxThroughput: 100 }));
  });

  test("the offer goes with its container", async () => {
    const { container } = await create();
    const offer = await offerOf(container);
    await container.delete();
    await refused(404, account.client.offer(offer.id).read());
  });
});
