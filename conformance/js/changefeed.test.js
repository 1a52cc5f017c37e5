import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, PartitionKeyDefinitionVersion, PartitionKeyKind, StatusCodes } from "@azure/cosmos";

import { eventually, refused, suite } from "./support.js";

const FIVE_RANGES = { throughput: 30_000 };
const VERSIONED = { changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(10)) };
const ALL_VERSIONS = ChangeFeedMode.AllVersionsAndDeletes;

/** Reads until the feed says that there is nothing new; the items and where to go on. */
async function drain(container, options) {
  const iterator = container.items.getChangeFeedIterator(options);
  const items = [];
  for (;;) {
    const page = await iterator.readNext();
    assert.ok(page.requestCharge > 0);
    if (page.statusCode === StatusCodes.NotModified) return { items, token: page.continuationToken };
    assert.equal(page.statusCode, StatusCodes.Ok);
    assert.equal(page.count, page.result.length);
    items.push(...page.result);
  }
}

const from = (start, more = {}) => ({ changeFeedStartFrom: start, ...more });
const after = (token, more = {}) => from(ChangeFeedStartFrom.Continuation(token), more);
const ids = (items) => items.map((item) => item.id);
const sorted = (items) => ids(items).sort();
const events = (items) => items.map(({ current, metadata }) => `${metadata.operationType} ${metadata.id ?? current.id}`);
const numbers = (count) => Array.from({ length: count }, (_, n) => String(n).padStart(2, "0"));

async function create(container, some, pk) {
  for (const id of some) await container.items.create({ id, pk: pk ?? `p${id}` });
}

suite("change feed", (account) => {
  for (const options of [{}, FIVE_RANGES]) {
    const where = options.throughput ? "five ranges" : "one range";

    test(`latest versions of a container, ${where}`, async () => {
      const container = await account.container(options);
      await create(container, numbers(25));
      await container.items.upsert({ id: "03", pk: "p03", again: true });
      await container.item("04", "p04").delete();
      const expected = numbers(25).filter((id) => id !== "04");
      for (const maxItemCount of [3, 100]) {
        const { items } = await drain(container, from(ChangeFeedStartFrom.Beginning(), { maxItemCount }));
        assert.deepEqual(sorted(items), expected);
      }
      const now = await drain(container, from(ChangeFeedStartFrom.Now()));
      assert.deepEqual(now.items, []);
      await create(container, ["new"]);
      const next = await drain(container, after(now.token));
      assert.deepEqual(ids(next.items), ["new"]);
      assert.equal(typeof next.items[0]._lsn, "number");
      assert.deepEqual((await drain(container, after(next.token))).items, []);
    });

    test(`keys and ranges as scopes, ${where}`, async () => {
      const container = await account.container(options);
      await create(container, numbers(20));
      await create(container, ["x", "y"], "p07");
      const ofKey = await drain(container, from(ChangeFeedStartFrom.Beginning("p07"), { maxItemCount: 1 }));
      assert.deepEqual(ids(ofKey.items), ["07", "x", "y"]);
      await create(container, ["z"], "p07");
      await create(container, ["elsewhere"]);
      assert.deepEqual(ids((await drain(container, after(ofKey.token))).items), ["z"]);
      const ranges = await container.getFeedRanges();
      assert.equal(ranges.length, options.throughput ? 5 : 1);
      const parts = [];
      for (const range of ranges) {
        parts.push(...(await drain(container, from(ChangeFeedStartFrom.Beginning(range)))).items);
      }
      assert.deepEqual(sorted(parts), [...numbers(20), "elsewhere", "x", "y", "z"].sort());
    });

    test(`all versions and deletes, ${where}`, async () => {
      const container = await account.container({ ...options, ...VERSIONED });
      const now = await drain(container, from(ChangeFeedStartFrom.Now(), { changeFeedMode: ALL_VERSIONS }));
      await create(container, ["1"]);
      await container.item("1", "p1").replace({ id: "1", pk: "p1", n: 2 });
      await container.item("1", "p1").delete();
      const { items, token } = await drain(container, after(now.token, { changeFeedMode: ALL_VERSIONS, maxItemCount: 1 }));
      assert.deepEqual(events(items), ["create 1", "replace 1", "delete 1"]);
      const [created, replaced, deleted] = items;
      assert.equal(replaced.current.n, 2);
      assert.equal(replaced.metadata.previousImageLSN, created.metadata.lsn);
      assert.deepEqual(deleted.current, {});
      assert.deepEqual(deleted.metadata.partitionKey, { pk: "p1" });
      assert.equal(deleted.metadata.timeToLiveExpired, false);
      assert.deepEqual(items.map((item) => item.previous?.n), [undefined, undefined, 2]);
      assert.deepEqual((await drain(container, after(token, { changeFeedMode: ALL_VERSIONS }))).items, []);
    });
  }

  test("a point in time", async () => {
    const container = await account.container(FIVE_RANGES);
    await create(container, ["before"]);
    const { resource } = await container.item("before", "pbefore").read();
    assert.ok(await eventually(() => Date.now() > (resource._ts + 2) * 1000));
    await create(container, ["after"]);
    const since = (seconds) => from(ChangeFeedStartFrom.Time(new Date(seconds * 1000)));
    assert.deepEqual(ids((await drain(container, since(resource._ts))).items), ["after"]);
    assert.deepEqual(sorted((await drain(container, since(resource._ts - 5))).items), ["after", "before"]);
  });

  test("a prefix of a hierarchical key", async () => {
    const partitionKey = { paths: ["/a", "/b"], kind: PartitionKeyKind.MultiHash, version: PartitionKeyDefinitionVersion.V2 };
    const container = await account.container({ partitionKey, ...FIVE_RANGES });
    for (const [id, a, b] of [["1", "x", "1"], ["2", "x", "2"], ["3", "y", "1"]]) await container.items.create({ id, a, b });
    assert.deepEqual(sorted((await drain(container, from(ChangeFeedStartFrom.Beginning(["x"])))).items), ["1", "2"]);
    assert.deepEqual(ids((await drain(container, from(ChangeFeedStartFrom.Beginning(["x", "2"])))).items), ["2"]);
  });

  test("the old iterator of one key", async () => {
    const container = await account.container();
    await create(container, ["1", "2"], "a");
    const feed = container.items.changeFeed("a", { startFromBeginning: true, maxItemCount: 1 });
    const first = await feed.fetchNext();
    assert.deepEqual(ids(first.result), ["1"]);
    const second = await feed.fetchNext();
    assert.deepEqual(ids(second.result), ["2"]);
    assert.equal((await feed.fetchNext()).statusCode, StatusCodes.NotModified);
    const resumed = container.items.changeFeed("a", { continuation: first.headers.etag });
    assert.deepEqual(ids((await resumed.fetchNext()).result), ["2"]);
  });

  test("positions outlive splits", async () => {
    const container = await account.container({ throughput: 400, ...VERSIONED });
    await create(container, numbers(20));
    const latest = await drain(container, from(ChangeFeedStartFrom.Beginning()));
    const versions = await drain(container, from(ChangeFeedStartFrom.Now(), { changeFeedMode: ALL_VERSIONS }));
    const { resource: offer } = await container.readOffer();
    await account.client.offer(offer.id).replace({ ...offer, content: { ...offer.content, offerThroughput: 25_000 } });
    const other = account.connect().database(account.database.id).container(container.id);
    const ranges = async () => (await other.readPartitionKeyRanges().fetchAll()).resources.length;
    assert.ok(await eventually(async () => (await ranges()) >= 3, 60_000));
    const news = numbers(20).map((id) => `n${id}`);
    await create(container, news);
    assert.deepEqual(sorted((await drain(container, after(latest.token))).items), news);
    const { items } = await drain(container, after(versions.token, { changeFeedMode: ALL_VERSIONS }));
    assert.deepEqual(events(items).sort(), news.map((id) => `create ${id}`));
  });

  test("all versions need the policy and a start from now", async () => {
    const plain = await account.container();
    const start = ChangeFeedStartFrom.Now("a");
    const refusal = await refused(400, plain.items.getChangeFeedIterator(from(start, { changeFeedMode: ALL_VERSIONS })).readNext());
    assert.match(refusal.message, /All Versions and Deletes.*must be enabled/);
    const versioned = await account.container(VERSIONED);
    const options = from(ChangeFeedStartFrom.Time(new Date(0)), { changeFeedMode: ALL_VERSIONS });
    await assert.rejects(async () => versioned.items.getChangeFeedIterator(options).readNext());
  });
});
