// Compares filters and updates of the driver with those of mingo.

import { spawnSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import { Query } from "mingo";
import { update } from "mingo/updater";
import { Generator } from "./generate.js";
import { inFilters, inUpdates } from "./known-differences.js";

const [driver, seedText = "1", countText = "4000"] = process.argv.slice(2);
const DOCUMENTS = 12;
const SHOWN = Number(process.env.SHOWN ?? 10);

const generator = new Generator(Number(seedText));
const cases = Array.from({ length: Number(countText) }, (_, number) =>
  number % 2 === 0
    ? { filter: generator.filter(), documents: Array.from({ length: DOCUMENTS }, () => generator.document()) }
    : { update: generator.update(), document: generator.document() },
);

const input = cases.map((each) => JSON.stringify(each) + "\n").join("");
const run = spawnSync(driver, { input, encoding: "utf8", maxBuffer: 1 << 30 });
if (run.status !== 0) throw new Error(`the driver failed: ${run.stderr}`);
const answers = run.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
if (answers.length !== cases.length) throw new Error(`${answers.length} answers`);

/** What mingo does. It has no numbers of failures, so that only their being there is compared. */
function expected(each) {
  try {
    if (each.filter) {
      const query = new Query(each.filter);
      return { matches: each.documents.map((document) => query.test(structuredClone(document))) };
    }
    const document = structuredClone(each.document);
    update(document, structuredClone(each.update));
    // Through JSON, which has no minus zero and no holes in arrays.
    return { result: JSON.parse(JSON.stringify(document)) };
  } catch (error) {
    return { failure: String(error.message ?? error) };
  }
}

/** Which known differences a case has: of a filter with one document, or of an update. */
function known(list, each, document) {
  return list.find((difference) => difference.applies(each, document))?.name;
}

let compared = 0;
const left = new Map();
const leave = (name) => left.set(name, (left.get(name) ?? 0) + 1);
const differences = [];
cases.forEach((each, number) => {
  const ours = answers[number];
  const theirs = expected(each);
  if (each.filter) {
    if (ours.failure || theirs.failure) {
      const name = known(inFilters, each.filter, {});
      if (name) return leave(name);
      compared += 1;
      if (!ours.failure || !theirs.failure) differences.push({ ...each, ours, theirs });
      return;
    }
    each.documents.forEach((document, at) => {
      const name = known(inFilters, each.filter, document);
      if (name) return leave(name);
      compared += 1;
      if (ours.matches[at] !== theirs.matches[at]) {
        const [mine, other] = [ours.matches[at], theirs.matches[at]];
        differences.push({ filter: each.filter, document, ours: mine, theirs: other });
      }
    });
    return;
  }
  const name = known(inUpdates, each.update, each.document);
  if (name) return leave(name);
  if (ours.failure && isDeepStrictEqual(theirs.result, each.document)) {
    return leave("updates that MongoDB refuses leave the document as it is");
  }
  compared += 1;
  const result = ours.failure ? ours : { result: ours.result ?? each.document };
  const agree = result.failure && theirs.failure ? true : isDeepStrictEqual(result, theirs);
  if (!agree) differences.push({ ...each, ours: result, theirs });
});

for (const [name, count] of left) console.log(`${count} left out: ${name}`);
for (const difference of differences.slice(0, SHOWN)) console.log(JSON.stringify(difference));
console.log(`${compared} compared, ${differences.length} differ`);
process.exitCode = differences.length === 0 ? 0 : 1;
