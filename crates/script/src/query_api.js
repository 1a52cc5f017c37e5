// The language-integrated queries of the service: `filter`, `map`, `pluck`, `flatten`, `unwind`,
// `sortBy` and their chain. Adds them to the collection that it is given.
(function (collection, helpers) {
  "use strict";
  const { fail, native, later, links, callbackOptions, answer } = helpers;
  const parse = JSON.parse;
  const stringify = JSON.stringify;
  const isArray = Array.isArray;
  const sort = Function.prototype.call.bind(Array.prototype.sort);
  const PAGE_SIZE = 100;

  function needsFunction(name, value) {
    if (typeof value !== "function") throw fail(400, `The function "${name}" requires a function as its argument.`);
    return value;
  }

  function compare(left, right) {
    const rank = (value) => value === undefined ? 0 : value === null ? 1 : typeof value === "boolean" ? 2 : typeof value === "number" ? 3 : typeof value === "string" ? 4 : 5;
    const ranks = rank(left) - rank(right);
    if (ranks !== 0) return ranks;
    return left < right ? -1 : left > right ? 1 : 0;
  }

  // Each stage takes one row and hands on any number of them.
  const stages = {
    filter: (predicate) => {
      needsFunction("filter", predicate);
      return (row, emit) => { if (predicate(row)) emit(row); };
    },
    map: (transformation) => {
      needsFunction("map", transformation);
      return (row, emit) => { const value = transformation(row); if (value !== undefined) emit(value); };
    },
    pluck: (name) => {
      if (typeof name !== "string") throw fail(400, 'The function "pluck" requires the name of a property.');
      return (row, emit) => {
        const value = row === null || row === undefined ? undefined : row[name];
        if (value !== undefined) emit(value);
      };
    },
    flatten: (isShallow) => {
      const flat = (value, emit, depth) => {
        if (!isArray(value) || (isShallow && depth > 0)) { emit(value); return; }
        for (let i = 0; i < value.length; i++) flat(value[i], emit, depth + 1);
      };
      return (row, emit) => { if (isArray(row)) flat(row, emit, 0); };
    },
    unwind: (select, result) => {
      needsFunction("unwind", select);
      if (result !== undefined) needsFunction("unwind", result);
      return (row, emit) => {
        const inner = select(row);
        if (!isArray(inner)) return;
        for (let i = 0; i < inner.length; i++) emit(result ? result(row, inner[i]) : inner[i]);
      };
    },
  };

  function sorter(name, select, direction) {
    needsFunction(name, select);
    return (rows) => {
      const keyed = [];
      for (let i = 0; i < rows.length; i++) {
        const key = select(rows[i]);
        if (key !== undefined) keyed[keyed.length] = [key, rows[i]];
      }
      sort(keyed, (a, b) => direction * compare(a[0], b[0]));
      const out = [];
      for (let i = 0; i < keyed.length; i++) out[i] = keyed[i][1];
      return out;
    };
  }

  // A step is either a stage, row by row, or a sort, which needs all rows.
  function runRow(steps, from, row, emit) {
    if (from === steps.length) { emit(row); return; }
    steps[from].stage(row, (value) => runRow(steps, from + 1, value, emit));
  }

  function source(token, size) {
    const options = stringify({ pageSize: size, continuation: token });
    return native.call("list", links[0], undefined, options);
  }

  // Rows until the page is full; a page goes on within the source page it ended in.
  function page(steps, options) {
    const wanted = options.pageSize === undefined ? PAGE_SIZE : options.pageSize === -1 ? Infinity : options.pageSize;
    if (typeof wanted !== "number" || !(wanted > 0)) throw fail(400, "The page size must be a positive number or -1.");
    let token, skip = 0;
    if (options.continuation) {
      let position;
      try { position = parse(options.continuation); } catch { throw fail(400, "Invalid Continuation Token"); }
      if (!isArray(position) || position.length !== 2) throw fail(400, "Invalid Continuation Token");
      token = position[0] === null ? undefined : position[0];
      skip = position[1];
    }
    const rows = [];
    for (;;) {
      const reply = source(token, PAGE_SIZE);
      if (reply === null) return null;
      if (reply.number !== undefined) throw fail(reply.number, reply.message);
      const found = [];
      const items = parse(reply.body);
      for (let i = 0; i < items.length; i++) runRow(steps, 0, items[i], (value) => { found[found.length] = value; });
      let at = skip;
      skip = 0;
      for (; at < found.length && rows.length < wanted; at++) rows[rows.length] = found[at];
      if (at < found.length) return { rows, continuation: stringify([token === undefined ? null : token, at]), reply };
      token = reply.continuation;
      if (!token) return { rows, reply };
      if (rows.length >= wanted) return { rows, continuation: stringify([token, 0]), reply };
    }
  }

  // All rows, since a sort needs them.
  function sorted(steps, options) {
    if (options.continuation) throw fail(400, "A query that sorts can't be continued.");
    const at = steps.findIndex((step) => step.sort);
    const all = page(steps.slice(0, at), { pageSize: -1 });
    if (all === null) return null;
    let rows = steps[at].sort(all.rows);
    for (let i = at + 1; i < steps.length; i++) {
      if (steps[i].sort) { rows = steps[i].sort(rows); continue; }
      const out = [];
      for (let j = 0; j < rows.length; j++) steps[i].stage(rows[j], (value) => { out[out.length] = value; });
      rows = out;
    }
    if (options.pageSize > 0) rows = rows.slice(0, options.pageSize);
    return { rows, reply: all.reply };
  }

  function run(steps, first, second) {
    // The callback and the options may come in either order.
    let options = first, callback = second;
    if (typeof first === "function") { callback = first; options = second; }
    if (options === undefined || options === null) options = {};
    let result;
    try {
      result = steps.some((step) => step.sort) ? sorted(steps, options) : page(steps, options);
    } catch (error) {
      if (typeof callback !== "function" || error.number === undefined) throw error;
      later(callback, error);
      return { isAccepted: true };
    }
    if (result === null) return { isAccepted: false };
    if (typeof callback === "function") {
      const answered = callbackOptions({ status: 200, continuation: result.continuation });
      later(callback, undefined, result.rows, answered);
    } else {
      answer(result.rows);
    }
    const reply = { isAccepted: true };
    if (result.continuation) reply.continuation = result.continuation;
    return reply;
  }

  function step(name, args) {
    switch (name) {
      case "sortBy": return { sort: sorter(name, args[0], 1) };
      case "sortByDescending": return { sort: sorter(name, args[0], -1) };
      default: return { stage: stages[name](args[0], args[1]) };
    }
  }

  const NAMES = ["filter", "map", "pluck", "flatten", "unwind", "sortBy", "sortByDescending"];

  function chain(steps) {
    const link = { value(first, second) { return run(steps, first, second); } };
    for (const name of NAMES) {
      link[name] = function () { return chain([...steps, step(name, arguments)]); };
    }
    return link;
  }

  for (const name of NAMES) {
    collection[name] = function () {
      // What follows the step's own arguments are options and callback.
      let own = name === "flatten" ? (typeof arguments[0] === "boolean" ? 1 : 0) : 1;
      if (name === "unwind" && typeof arguments[1] === "function" && arguments[1].length === 2) own = 2;
      const args = own === 0 ? [] : own === 1 ? [arguments[0]] : [arguments[0], arguments[1]];
      return run([step(name, args)], arguments[own], arguments[own + 1]);
    };
  }
  collection.chain = () => chain([]);
});
