import assert from "node:assert/strict";
import { test } from "node:test";

import { refused, suite, withoutSystem } from "./support.js";

const ITEM = { id: "1", pk: "a", number: 5, text: "abc", list: [1, 2, 3], child: { x: 1 } };

const CASES = [
  [{ op: "add", path: "/new", value: { k: 1 } }, { new: { k: 1 } }],
  [{ op: "add", path: "/text", value: null }, { text: null }],
  [{ op: "add", path: "/list/1", value: 9 }, { list: [1, 9, 2, 3] }],
  [{ op: "add", path: "/list/-", value: 9 }, { list: [1, 2, 3, 9] }],
  [{ op: "set", path: "/list/1", value: 9 }, { list: [1, 9, 3] }],
  [{ op: "set", path: "/child/y", value: 2 }, { child: { x: 1, y: 2 } }],
  [{ op: "replace", path: "/text", value: 7 }, { text: 7 }],
  [{ op: "remove", path: "/list/0" }, { list: [2, 3] }],
  [{ op: "remove", path: "/text" }, { text: undefined }],
  [{ op: "incr", path: "/number", value: 3 }, { number: 8 }],
  [{ op: "incr", path: "/number", value: -5.5 }, { number: -0.5 }],
  [{ op: "incr", path: "/count", value: 2 }, { count: 2 }],
  [{ op: "move", from: "/child/x", path: "/moved" }, { child: {}, moved: 1 }],
  [{ op: "move", from: "/list/2", path: "/list/0" }, { list: [3, 1, 2] }],
];

const FAILURES = [
  { op: "add", path: "/absent/child", value: 1 },
  { op: "add", path: "/list/9", value: 1 },
  { op: "set", path: "/list/9", value: 1 },
  { op: "replace", path: "/absent", value: 1 },
  { op: "remove", path: "/absent" },
  { op: "incr", path: "/text", value: 1 },
  { op: "move", from: "/absent", path: "/b" },
  { op: "move", from: "/child", path: "/child/inner" },
  { op: "unheard", path: "/number", value: 1 },
  { op: "set", path: "/id", value: "2" },
  { op: "set", path: "/pk", value: "b" },
];

suite("patch", (account) => {
  let container;
  const fresh = async () => {
    container ??= await account.container();
    await container.items.upsert(ITEM);
    return container.item("1", "a");
  };

  for (const [operation, changes] of CASES) {
    test(JSON.stringify(operation), async () => {
      const item = await fresh();
      const patched = await item.patch([operation]);
      assert.equal(patched.statusCode, 200);
      const expected = JSON.parse(JSON.stringify({ ...ITEM, ...changes }));
      assert.deepEqual(withoutSystem(patched.resource), expected);
      assert.deepEqual((await item.read()).resource, patched.resource);
    });
  }

  for (const operation of FAILURES) {
    test(`refuses ${JSON.stringify(operation)}`, async () => {
      const item = await fresh();
      await refused(400, item.patch([{ op: "set", path: "/first", value: 1 }, operation]));
      assert.deepEqual(withoutSystem((await item.read()).resource), ITEM);
    });
  }

  test("one to ten operations", async () => {
    const item = await fresh();
    const operations = Array.from({ length: 11 }, (_, n) => ({ op: "set", path: `/p${n}`, value: n }));
    await refused(400, item.patch([]));
    await refused(400, item.patch(operations));
    assert.equal((await item.patch(operations.slice(0, 10))).resource.p9, 9);
  });

  test("conditions", async () => {
    const item = await fresh();
    const operations = [{ op: "incr", path: "/number", value: 1 }];
    const applied = await item.patch({ condition: "from c where c.number = 5", operations });
    assert.equal(applied.resource.number, 6);
    await refused(412, item.patch({ condition: "from c where c.number = 5", operations }), { substatus: 1110 });
    await refused(400, item.patch({ condition: "from c where", operations }));
    assert.equal((await item.read()).resource.number, 6);
  });
});
