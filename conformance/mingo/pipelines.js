// Pipelines that are valid in MongoDB, over documents whose fields have known types, and what mingo
// makes of them.

import { Aggregator } from "mingo";

const NAMES = ["n", "m", "s", "t", "a", "o", "l"];

/** Makes pipelines with the random numbers of a generator. */
export class Pipelines {
  constructor(generator) {
    this.g = generator;
    this.variables = [];
  }

  /** Numbers `n` and `m`, texts `s` and `t`, an array `a`, an object `o`, objects in `l`. */
  document(id) {
    const { g } = this;
    const maybe = (make) => (g.next() < 0.15 ? undefined : make());
    const document = {
      _id: id,
      n: maybe(() => g.pick([0, 1, 2, 3, -4, 2.5, 10])),
      m: maybe(() => g.pick([null, 1, 2, 7])),
      s: g.pick(["", "a", "ab", "b c", "Abc", "héllo"]),
      t: maybe(() => g.pick(["a", "b", "bc"])),
      a: g.list(4, () => g.pick([0, 1, 2, 3, 3, -1])),
      o: { x: g.below(4), y: maybe(() => g.pick(["p", "q"])) },
      l: g.list(3, () => ({ k: g.below(3), v: g.pick(["x", "y", null]) })),
    };
    for (const name of NAMES) if (document[name] === undefined) delete document[name];
    if (document.o.y === undefined) delete document.o.y;
    return document;
  }

  number(depth) {
    const { g } = this;
    if (depth === 0) return g.pick(["$n", "$o.x", 0, 1, 2, -3, 1.5, ...this.variables]);
    const sub = () => this.number(depth - 1);
    switch (g.below(15)) {
      case 0: return { $add: [sub(), sub()] };
      case 1: return { $subtract: [sub(), sub()] };
      case 2: return { $multiply: [sub(), sub()] };
      case 3: return { $divide: [sub(), g.pick([2, 4, -1])] };
      case 4: return { $mod: [sub(), g.pick([2, 3])] };
      case 5: return { $abs: sub() };
      case 6: return { [g.pick(["$ceil", "$floor"])]: sub() };
      case 7: return { $size: this.array(depth - 1) };
      case 8: return { $strLenCP: this.text(depth - 1) };
      case 9: return { [g.pick(["$sum", "$avg", "$max", "$min"])]: this.array(depth - 1) };
      case 10: return { $cond: [this.test(depth - 1), sub(), sub()] };
      case 11: return { $ifNull: [sub(), sub()] };
      case 12: return { $indexOfArray: [this.array(depth - 1), sub()] };
      case 13: return { $cmp: [sub(), sub()] };
      default:
        return { $let: { vars: { v: sub() }, in: this.within("$$v", () => this.number(depth - 1)) } };
    }
  }

  within(variable, make) {
    this.variables.push(variable);
    const made = make();
    this.variables.pop();
    return made;
  }

  text(depth) {
    const { g } = this;
    if (depth === 0) return g.pick(["$s", { $literal: "xy" }, { $literal: "a b" }]);
    const sub = () => this.text(depth - 1);
    switch (g.below(8)) {
      case 0: return { $concat: [sub(), sub()] };
      case 1: return { [g.pick(["$toUpper", "$toLower"])]: sub() };
      case 2: return { $substrCP: [sub(), g.below(3), g.below(4)] };
      case 3: return { [g.pick(["$trim", "$ltrim", "$rtrim"])]: { input: sub(), chars: "a " } };
      case 4: return { $replaceAll: { input: sub(), find: "a", replacement: "--" } };
      case 5: return { $replaceOne: { input: sub(), find: "b", replacement: "" } };
      case 6: return { $cond: { if: this.test(depth - 1), then: sub(), else: sub() } };
      default: return { $toString: g.pick([5, true, "q"]) };
    }
  }

  test(depth) {
    const { g } = this;
    if (depth === 0) return g.pick([true, false, { $eq: ["$m", 1] }, { $gt: ["$o.x", 1] }]);
    const sub = () => this.test(depth - 1);
    switch (g.below(8)) {
      case 0: return { $and: [sub(), sub()] };
      case 1: return { $or: [sub(), sub()] };
      case 2: return { $not: [sub()] };
      case 3: return { $in: [this.number(0), this.array(depth - 1)] };
      case 4: return { $regexMatch: { input: this.text(depth - 1), regex: g.pick(["a", "^b", "c$"]) } };
      case 5: return { $isArray: g.pick(["$a", "$n"]) };
      case 6: return { $setIsSubset: [this.array(depth - 1), this.array(depth - 1)] };
      default: {
        // mingo has no order of null and numbers.
        const sub = () => ({ $ifNull: [this.number(depth - 1), 0] });
        return { [g.pick(["$eq", "$ne", "$gt", "$lt", "$gte", "$lte"])]: [sub(), sub()] };
      }
    }
  }

  /** Numbers. */
  array(depth) {
    const { g } = this;
    if (depth === 0) return g.pick(["$a", { $literal: [1, 2, 3] }, { $literal: [] }, "$l.k"]);
    const sub = () => this.array(depth - 1);
    switch (g.below(11)) {
      case 0: return { $concatArrays: [sub(), sub()] };
      case 1: return { $reverseArray: sub() };
      case 2: return { $slice: [sub(), g.pick([1, 2, -1, -2])] };
      case 3: return { $slice: [sub(), g.pick([0, 1, -2]), 2] };
      case 4: return { $range: [0, g.below(5), g.pick([1, 2])] };
      case 5: return { $filter: { input: sub(), as: "e", cond: { $gt: ["$$e", g.below(3)] } } };
      case 6: return { $map: { input: sub(), as: "e", in: { $add: ["$$e", 1] } } };
      case 7: return { $sortArray: { input: sub(), sortBy: g.pick([1, -1]) } };
      case 8: return { $setDifference: [sub(), sub()] };
      case 9: return { $reduce: { input: sub(), initialValue: [], in: { $concatArrays: ["$$value", ["$$this"]] } } };
      default: return { $map: { input: "$l", as: "e", in: "$$e.k" } };
    }
  }

  other(depth) {
    const { g } = this;
    switch (g.below(7)) {
      case 0: return { $mergeObjects: ["$o", { z: this.number(depth) }] };
      case 1: return { $objectToArray: "$o" };
      case 2: return { $arrayElemAt: [this.array(depth), g.pick([0, -1, 1])] };
      case 3: return { [g.pick(["$first", "$last"])]: this.array(depth) };
      case 4: return { $split: [this.text(depth), " "] };
      case 5: return { $zip: { inputs: [this.array(depth), this.array(depth)] } };
      default: return { $type: g.pick(["$s", "$a", "$o", "$gone"]) };
    }
  }

  value() {
    const depth = this.g.below(3);
    return [this.number, this.text, this.test, this.array, this.other][this.g.below(5)].call(this, depth);
  }

  accumulator() {
    const { g } = this;
    switch (g.below(8)) {
      case 0: return { $sum: this.number(1) };
      case 1: return { $avg: "$n" };
      case 2: return { [g.pick(["$min", "$max"])]: this.number(1) };
      case 3: return { [g.pick(["$first", "$last"])]: this.text(1) };
      case 4: return { $push: g.next() < 0.5 ? this.text(1) : this.array(1) };
      case 5: return { $count: {} };
      case 6: return { $firstN: { n: 2, input: "$n" } };
      default: return { $topN: { n: 2, sortBy: { _id: -1 }, output: "$s" } };
    }
  }

  stage() {
    const { g } = this;
    switch (g.below(13)) {
      case 0: return [{ $match: { $expr: this.test(2) } }];
      case 1: return [{ $match: { n: { $gt: g.below(3) } } }];
      case 2: return [{ $addFields: { r: this.value(), "o.w": this.value() } }];
      case 3: return [{ $project: { s: 1, "o.x": 1, r: this.value() } }];
      case 4: return [{ $unset: g.pick(["a", "o.x", ["s", "l.k"]]) }];
      case 5: return [{ $sort: { [g.pick(["s", "o.x"])]: g.pick([1, -1]), _id: 1 } }];
      case 6: return [{ $limit: 1 + g.below(8) }];
      case 7: return [{ $skip: g.below(4) }];
      case 8: return [{ $unwind: { path: "$l", preserveNullAndEmptyArrays: g.next() < 0.5 } }];
      case 9: return [{ $group: { _id: g.pick(["$s", "$o.x", null]), v: this.accumulator(), w: this.accumulator() } }, { $sort: { _id: 1 } }];
      case 10: return [{ $replaceRoot: { newRoot: { _id: "$_id", r: this.value() } } }];
      case 11: return [{ $bucket: { groupBy: "$o.x", boundaries: [0, 1.5, 9], default: "none", output: { c: this.accumulator() } } }];
      default: return [{ $facet: { x: [{ $match: { n: 1 } }, { $project: { _id: 1 } }], y: [{ $sort: { _id: -1 } }, { $limit: 2 }] } }];
    }
  }

  /** Stages that lose fields come last, since the others need them. */
  pipeline() {
    const stages = Array.from({ length: 1 + this.g.below(3) }, () => this.stage());
    const loses = ([stage]) =>
      ["$group", "$project", "$unset", "$replaceRoot", "$bucket", "$facet"].includes(Object.keys(stage)[0]);
    const at = stages.findIndex(loses);
    return (at < 0 ? stages : [...stages.slice(0, at), stages[at]]).flat();
  }
}

/** What mingo makes of a pipeline. */
export function aggregate(pipeline, documents) {
  const found = new Aggregator(structuredClone(pipeline)).run(structuredClone(documents));
  // Through JSON, which has no minus zero and no undefined fields.
  return JSON.parse(JSON.stringify(found));
}
