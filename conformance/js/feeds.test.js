import assert from "node:assert/strict";
import { test } from "node:test";

import { all, newId, refused, suite } from "./support.js";

const ALL = Array.from({ length: 25 }, (_, n) => String(n).padStart(2, "0"));

suite("feeds and queries", (account) => {
  for (const throughput of [400, 30_000]) {
    test(`paging and resuming, ${throughput} RU/s`, async () => {
      const container = await account.container({ throughput });
      for (const id of ALL) await container.items.create({ id, pk: `p${id}`, n: Number(id) });
      const inPages = async (open) => {
        const pages = [];
        for (let token; ; ) {
          const iterator = open(token);
          const { resources, continuationToken, hasMoreResults, requestCharge } = await iterator.fetchNext();
          assert.ok(requestCharge >= 0);
          pages.push(resources ?? []);
          token = continuationToken;
          if (!token || !hasMoreResults) break;
        }
        return pages;
      };
      for (const maxItemCount of [1, 7, 100]) {
        const pages = await inPages((continuationToken) => container.items.readAll({ maxItemCount, continuationToken }));
        assert.ok(pages.every((page) => page.length <= maxItemCount));
        assert.deepEqual(pages.flat().map((item) => item.id).sort(), ALL);
      }
      const iterated = [];
      for await (const { resources } of container.items.readAll({ maxItemCount: 4 }).getAsyncIterator()) iterated.push(...resources);
      assert.deepEqual(iterated.map((item) => item.id).sort(), ALL);
      const queried = await all(container.items.query("SELECT * FROM c", { maxItemCount: 4 }));
      assert.deepEqual(queried.map((item) => item.id).sort(), ALL);
      const filtered = await all(
        container.items.query({
          query: "SELECT VALUE c.id FROM c WHERE c.n >= @low AND c.n < @high",
          parameters: [
            { name: "@low", value: 10 },
            { name: "@high", value: 13 },
          ],
        }),
      );
      assert.deepEqual(filtered.sort(), ["10", "11", "12"]);
    });
  }

  test("one partition resumes in order", async () => {
    const container = await account.container();
    for (const id of ALL) await container.items.create({ id, pk: "a" });
    await container.items.create({ id: "other", pk: "b" });
    const options = { partitionKey: "a", maxItemCount: 10 };
    const first = await container.items.query("SELECT * FROM c", options).fetchNext();
    assert.equal(first.resources.length, 10);
    const rest = await all(container.items.query("SELECT * FROM c", { ...options, continuationToken: first.continuationToken }));
    assert.deepEqual([...first.resources, ...rest].map((item) => item.id), ALL);
  });

  test("filters and parameters", async () => {
    const container = await account.container({ throughput: 12_000 });
    for (const item of [
      { id: "1", pk: "a", n: 1, child: { x: 1 }, tags: ["odd"] },
      { id: "2", pk: "b", n: 2, child: { x: 2 }, tags: ["even"], flag: true },
      { id: "3", pk: "c", n: "3", nothing: null },
    ]) {
      await container.items.create(item);
    }
    const found = async (condition) => (await all(container.items.query(`SELECT VALUE c.id FROM c WHERE ${condition}`))).sort().join("");
    for (const [condition, expected] of [
      ["true", "123"],
      ["c.n = 1", "1"],
      ["c.n > 1", "2"],
      ["c.n = '3'", "3"],
      ["c.id IN ('1', '3')", "13"],
      ["c.child.x = 2 OR c.nothing = null", "23"],
      ["NOT (c.pk = 'a')", "23"],
      ["c.tags[0] = 'even' AND c.flag", "2"],
    ]) {
      assert.equal(await found(condition), expected, condition);
    }
    await refused(400, container.items.query("SELEC * FROM c", { partitionKey: "a" }).fetchAll());
    assert.equal(await found("c.n = @missing"), "");
  });

  test("ranges cover the key space", async () => {
    for (const [throughput, count] of [[400, 1], [12_000, 2], [30_000, 5]]) {
      const container = await account.container({ throughput });
      const ranges = await all(container.readPartitionKeyRanges());
      assert.equal(ranges.length, count);
      assert.equal((await container.getFeedRanges()).length, count);
      ranges.sort((left, right) => (left.minInclusive < right.minInclusive ? -1 : 1));
      assert.equal(ranges[0].minInclusive, "");
      assert.equal(ranges.at(-1).maxExclusive, "FF");
      for (let n = 1; n < ranges.length; n++) assert.equal(ranges[n].minInclusive, ranges[n - 1].maxExclusive);
    }
  });

  test("containers page", async () => {
    const { database } = await account.client.databases.create({ id: newId("db") });
    for (let n = 0; n < 5; n++) await database.containers.create({ id: `c${n}`, partitionKey: "/pk" });
    const pages = [];
    for await (const { resources } of database.containers.readAll({ maxItemCount: 2 }).getAsyncIterator()) pages.push(resources);
    assert.deepEqual(pages.flat().map((entry) => entry.id).sort(), ["c0", "c1", "c2", "c3", "c4"]);
    assert.ok(pages.every((page) => page.length <= 2));
    await database.delete();
  });
});
