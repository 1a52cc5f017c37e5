// Partitions are split and merged under live traffic, and no client notices.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeFeedStartFrom } from "@azure/cosmos";

import { suite } from "./support.js";

const CLIENTS = 8;
const CHANGES = 24;
const KEYS = 40;

/** Small seeded randomness, so that a failing run can be repeated. */
function chanceOf(seed) {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0;
    return state % below;
  };
}

/** Splits and merges through the admin API. */
class Partitions {
  constructor(server, database, container) {
    this.admin = `${server.endpoints.admin}_admin/v1`;
    this.partitions = `${this.admin}/containers/${database}/${container}/partitions`;
  }

  async ids() {
    const { partitions } = await this.call(this.partitions);
    return partitions.map((each) => each.id);
  }

  async split(id) {
    await this.finish(await this.call(`${this.partitions}/${id}/split`, { at: "midpoint" }));
  }

  async merge(ids) {
    await this.finish(await this.call(`${this.partitions}/merge`, { ids }));
  }

  async finish(job) {
    while (job.phase === "preparing") job = await this.call(`${this.admin}/jobs/${job.id}`);
    assert.equal(job.phase, "succeeded", JSON.stringify(job));
  }

  async call(url, body) {
    const response = await fetch(url, {
      method: body ? "POST" : "GET",
      headers: { "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    assert.ok(response.ok, `${url}: ${response.status} ${text}`);
    return JSON.parse(text);
  }
}

/** One SDK client that checks after every step that it sees what it wrote. */
class Writer {
  constructor(number, container) {
    this.number = number;
    this.container = container;
    this.expected = new Map();
    this.steps = 0;
  }

  async run(isOver) {
    const chance = chanceOf(this.number);
    while (!isOver()) {
      await this.step(chance);
      this.steps += 1;
    }
  }

  async step(chance) {
    const pk = `p${chance(KEYS)}`;
    const id = `${this.number}-${chance(20)}`;
    const place = `${pk}/${id}`;
    const action = chance(10);
    if (action === 0 && this.expected.has(place)) {
      await this.container.item(id, pk).delete();
      this.expected.delete(place);
    } else if (action === 1) {
      const ids = [0, 1, 2].map((n) => `${this.number}-b${n}`);
      const operations = ids.map((each) => ({ operationType: "Upsert", resourceBody: { id: each, pk, n: this.steps } }));
      const { result } = await this.container.items.batch(operations, pk);
      assert.ok(result.every((each) => each.statusCode < 300));
      for (const each of ids) this.expected.set(`${pk}/${each}`, this.steps);
    } else if (action === 2) {
      await this.query(pk);
    } else if (action === 3 && this.steps % 5 === 0) {
      await this.query();
    } else {
      await this.container.items.upsert({ id, pk, n: this.steps });
      this.expected.set(place, this.steps);
    }
    if (this.expected.has(place)) {
      const { resource } = await this.container.item(id, pk).read();
      assert.equal(resource?.n, this.expected.get(place), `${place} after ${this.steps} steps`);
    }
  }

  async query(partitionKey) {
    const { resources } = await this.container.items
      .query(
        {
          query: "SELECT c.pk, c.id, c.n FROM c WHERE STARTSWITH(c.id, @prefix)",
          parameters: [{ name: "@prefix", value: `${this.number}-` }],
        },
        partitionKey === undefined ? {} : { partitionKey },
      )
      .fetchAll();
    const found = new Map(resources.map((item) => [`${item.pk}/${item.id}`, item.n]));
    const wanted = [...this.expected].filter(([place]) => partitionKey === undefined || place.startsWith(`${partitionKey}/`));
    assert.deepEqual([...found].sort(), wanted.sort());
  }
}

/** Follows the change feed of the whole container to its end, again and again. */
async function follow(container, isOver) {
  const seen = new Map();
  const lsns = new Map();
  const iterator = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() });
  for (let isLast = false; ; ) {
    const response = await iterator.readNext();
    for (const item of response.result ?? []) {
      const place = `${item.pk}/${item.id}`;
      assert.ok(item._lsn >= (lsns.get(place) ?? 0), "the changes of an item come in order");
      lsns.set(place, item._lsn);
      seen.set(place, item.n);
    }
    if (response.statusCode === 304) {
      if (isLast) return seen;
      isLast = isOver();
    }
  }
}

suite("splits and merges", (account) => {
  test("clients notice nothing", async () => {
    const container = await account.container();
    const partitions = new Partitions(account.server, account.database.id, container.id);
    const ofClient = (client) => client.database(account.database.id).container(container.id);
    const writers = Array.from({ length: CLIENTS }, (_, n) => new Writer(n, ofClient(account.connect())));
    let isOver = false;
    let isWritten = false;
    const work = writers.map((writer) => writer.run(() => isOver));
    const following = follow(ofClient(account.connect()), () => isWritten);
    const failed = Promise.all([...work, following]).then(() => {});
    failed.catch(() => {});
    const chance = chanceOf(7);
    try {
      for (let change = 0; change < CHANGES; change += 1) {
        const ids = await partitions.ids();
        if (ids.length >= 5 || (ids.length > 1 && chance(10) < 4)) {
          const at = chance(ids.length - 1);
          await partitions.merge(ids.slice(at, at + 2));
        } else {
          await partitions.split(ids[chance(ids.length)]);
        }
        const goals = writers.map((writer) => writer.steps + 4);
        const gotOn = async () => {
          while (writers.some((writer, n) => writer.steps < goals[n])) await new Promise((resume) => setTimeout(resume, 5));
        };
        await Promise.race([gotOn(), failed]);
      }
    } finally {
      isOver = true;
    }
    await Promise.all(work);
    isWritten = true;
    const seen = await following;
    const expected = new Map(writers.flatMap((writer) => [...writer.expected]));
    const { resources } = await container.items.readAll().fetchAll();
    const stored = resources.map((item) => [`${item.pk}/${item.id}`, item.n]);
    assert.equal(stored.length, expected.size);
    assert.deepEqual(new Map(stored), expected);
    for (const [place, n] of expected) assert.equal(seen.get(place), n, `${place} in the change feed`);
  });
});
