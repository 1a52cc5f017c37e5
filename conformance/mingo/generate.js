// Documents, filters and updates that are valid in MongoDB, from a seed.

/** A generator of numbers from 0 up to 1 (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export class Generator {
  constructor(seed) {
    this.next = random(seed);
  }

  below(n) {
    return Math.floor(this.next() * n);
  }

  pick(choices) {
    return choices[this.below(choices.length)];
  }

  list(max, make) {
    return Array.from({ length: this.below(max + 1) }, make);
  }

  scalar() {
    return this.pick([0, 1, 2, 3, -1, 1.5, "a", "b", "ab", "", true, false, null]);
  }

  value(depth = 2) {
    const kind = depth === 0 ? 0 : this.below(6);
    if (kind === 4) return this.list(3, () => this.value(depth - 1));
    if (kind === 5) return this.object(depth - 1);
    return this.scalar();
  }

  object(depth) {
    return Object.fromEntries(this.list(3, () => [this.pick(["a", "b", "c"]), this.value(depth)]));
  }

  document() {
    return this.object(3);
  }

  path() {
    const parts = [this.pick(["a", "b", "c"])];
    while (this.next() < 0.4 && parts.length < 3) parts.push(this.pick(["a", "b", "c", "0", "1"]));
    return parts.join(".");
  }

  filter(depth = 2) {
    if (depth > 0 && this.next() < 0.25) {
      const parts = [this.filter(depth - 1), this.filter(depth - 1)];
      return { [this.pick(["$and", "$or", "$nor"])]: parts };
    }
    return Object.fromEntries(this.list(1, () => 0).concat(0).map(() => this.condition(depth)));
  }

  condition(depth) {
    if (this.next() < 0.2) return [this.path(), this.value(2)];
    const tests = this.list(1, () => 0).concat(0).map(() => this.test(depth));
    return [this.path(), Object.fromEntries(tests)];
  }

  /** An operator and its argument. Those on bits are left out: mingo makes numbers of all values. */
  test(depth) {
    const name = this.pick([
      "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$size",
      "$all", "$mod", "$regex", "$elemMatch", "$not",
    ]);
    switch (name) {
      case "$in":
      case "$nin":
        return [name, this.list(3, () => this.value(1))];
      case "$all":
        return [name, this.list(2, () => this.value(1))];
      case "$exists":
        return [name, this.next() < 0.5];
      case "$type":
        return [name, this.pick(["number", "string", "array", "object", "null", "bool", 2])];
      case "$size":
        return [name, this.below(4)];
      case "$mod":
        return [name, [this.pick([2, 3]), this.below(3)]];
      case "$regex":
        return [name, this.pick(["a", "^a", "b$", "^$", "A"])];
      case "$elemMatch":
        if (depth === 0) return ["$size", 1];
        if (this.next() < 0.5) return [name, this.filter(0)];
        return [name, Object.fromEntries([this.test(0)])];
      case "$not":
        return depth === 0 ? ["$eq", 1] : [name, Object.fromEntries([this.test(0)])];
      default:
        return [name, this.value(1)];
    }
  }

  update() {
    const operator = this.pick([
      "$set", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$push", "$addToSet", "$pop",
      "$pull", "$pullAll", "$bit",
    ]);
    return { [operator]: { [this.path()]: this.argument(operator) } };
  }

  argument(operator) {
    switch (operator) {
      case "$unset":
        return "";
      case "$inc":
      case "$mul":
        return this.pick([0, 1, 2, -3, 0.5]);
      case "$rename":
        return this.pick(["d", "e.f"]);
      case "$push": {
        if (this.next() < 0.5) return this.value(1);
        const push = { $each: this.list(2, () => this.scalar()) };
        if (this.next() < 0.3) push.$position = this.below(4) - 2;
        if (this.next() < 0.3) push.$sort = this.pick([1, -1]);
        if (this.next() < 0.3) push.$slice = this.below(5) - 2;
        return push;
      }
      case "$addToSet":
        if (this.next() < 0.5) return this.value(1);
        return { $each: this.list(3, () => this.value(1)) };
      case "$pop":
        return this.pick([1, -1]);
      case "$pull":
        if (this.next() < 0.5) return this.scalar();
        return Object.fromEntries([this.test(0)]);
      case "$pullAll":
        return this.list(3, () => this.value(1));
      case "$bit":
        return { [this.pick(["and", "or", "xor"])]: this.below(8) };
      default:
        return this.value(2);
    }
  }
}
