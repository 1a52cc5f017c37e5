// Compares filters, updates and pipelines of the driver with those of mingo.

import { spawnSync } from "node:child_process";
import { isDeepStrictEqual } from "node:util";
import { Query } from "mingo";
import { update } from "mingo/updater";
import { Generator } from "./generate.js";
import { inFilters, inPipelines, inUpdates } from "./known-differences.js";
import { Pipelines, aggregate } from "./pipelines.js";

const [driver, seedText = "1", countText = "4000"] = process.argv.slice(2);
const DOCUMENTS = 12;
const SHOWN = Number(process.env.SHOWN ?? 10);

const generator = new Generator(Number(seedText));
const pipelines = new Pipelines(generator);
const many = (make) => Array.from({ length: DOCUMENTS }, make);
const cases = Array.from({ length: Number(countText) }, (_, number) => {
  switch (number % 3) {
    case 0:
      return { filter: generator.filter(), documents: many(() => generator.document()) };
    case 1:
      return { update: generator.update(), document: generator.document() };
    default:
      return { pipeline: pipelines.pipeline(), documents: many((_, id) => pipelines.document(id)) };
  }
});

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
    if (each.pipeline) return { result: aggregate(each.pipeline, each.documents) };
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

/** Whether two values are the same but for the last digits of numbers. */
function areClose(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a));
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((element, at) => areClose(element, b[at]));
  }
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => name in b && areClose(a[name], b[name]))
  );
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
  if (each.pipeline) {
    const name = known(inPipelines, each.pipeline, each.documents);
    if (name) return leave(name);
    compared += 1;
    const agree = ours.failure ? theirs.failure !== undefined : areClose(ours.result, theirs.result);
    if (!agree) differences.push({ ...each, ours, theirs });
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
