import assert from "node:assert/strict";
import { test } from "node:test";

import { all, refused, suite } from "./support.js";

const TEXTS = [
  "A red bicycle stands in the street",
  "The river runs past a red house with a red roof",
  "We swim in the river and run in the street",
  "Stones and light",
  "Red stones, red light, red everything",
];
const ITEMS = TEXTS.map((text, n) => ({ id: String(n), pk: `p${n}`, n, text, v: [n, n % 2] }));
ITEMS.push({ id: "bare", pk: "none" });
const SEARCHED = {
  fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/text", language: "en-US" }] },
  vectorEmbeddingPolicy: {
    vectorEmbeddings: [{ path: "/v", dataType: "float32", distanceFunction: "euclidean", dimensions: 2 }],
  },
  indexingPolicy: {
    indexingMode: "consistent",
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/v/*" }],
    fullTextIndexes: [{ path: "/text" }],
    vectorIndexes: [{ path: "/v", type: "quantizedFlat" }],
  },
};

suite("searching", (account) => {
  for (const throughput of [400, 12_000]) {
    const filled = async () => {
      const container = await account.container({ throughput, ...SEARCHED });
      await Promise.all(ITEMS.map((item) => container.items.create(item)));
      return container;
    };

    test(`words and vectors, ${throughput} RU/s`, async () => {
      const container = await filled();
      const ids = async (query, options) => (await all(container.items.query(query, options))).map((row) => row.id);
      const red = await ids("SELECT c.id FROM c WHERE FullTextContains(c.text, 'red')");
      assert.deepEqual(red.sort(), ["0", "1", "4"]);
      const both = await ids("SELECT c.id FROM c WHERE FullTextContainsAll(c.text, 'river', 'house')");
      assert.deepEqual(both, ["1"]);
      const near = await ids("SELECT TOP 3 c.id FROM c ORDER BY VectorDistance(c.v, [2.1, 0])");
      assert.deepEqual(near, ["2", "3", "1"]);
      const { resource } = await container.read();
      assert.deepEqual(resource.fullTextPolicy, SEARCHED.fullTextPolicy);
      assert.deepEqual(resource.vectorEmbeddingPolicy, SEARCHED.vectorEmbeddingPolicy);
    });

    test(`rankings, ${throughput} RU/s`, async () => {
      const container = await filled();
      const ids = async (query, options) => (await all(container.items.query(query, options))).map((row) => row.id);
      const options = { forceQueryPlan: true, allowUnboundedNonStreamingQueries: true };
      const red = await ids("SELECT TOP 3 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'red')", options);
      assert.equal(red[0], "4");
      assert.deepEqual([...red].sort(), ["0", "1", "4"]);
      const fused = await ids(
        "SELECT TOP 2 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'river', 'swim'), VectorDistance(c.v, [2, 0]))",
        options,
      );
      assert.equal(fused[0], "2");
      const weighed = await ids(
        "SELECT TOP 1 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'river'), VectorDistance(c.v, [0, 0]), [0.01, 10])",
        options,
      );
      assert.deepEqual(weighed, ["0"]);
    });
  }

  test("vectors without an index that fits are refused", async () => {
    const bad = { ...SEARCHED, vectorEmbeddingPolicy: undefined };
    await refused(400, account.container(bad), { text: /not matching in Embedding/ });
  });
});
