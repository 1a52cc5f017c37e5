// What every script finds in its world, functions of queries included.
(function (isLate) {
  "use strict";
  const apply = Reflect.apply;
  const construct = Reflect.construct;
  const define = Object.defineProperty;
  const NativeError = Error;

  // The service's Error takes a number before its text.
  function ScriptError(first, second) {
    const isNumbered = arguments.length > 1 && typeof first === "number";
    const args = isNumbered ? [second] : arguments;
    const error = construct(NativeError, args, new.target || ScriptError);
    if (isNumbered) error.number = first;
    return error;
  }
  ScriptError.prototype = NativeError.prototype;
  const hidden = (value) => ({ value, writable: true, configurable: true, enumerable: false });
  define(ScriptError, "name", { value: "Error" });
  define(NativeError.prototype, "constructor", hidden(ScriptError));
  for (const name of ["EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "AggregateError"]) {
    if (globalThis[name]) Object.setPrototypeOf(globalThis[name], ScriptError);
  }
  define(globalThis, "Error", hidden(ScriptError));

  // Nothing of these is of use without a host that shares memory.
  for (const name of ["SharedArrayBuffer", "Atomics", "eval"]) delete globalThis[name];

  // Some built-in functions walk all that an object says to be its length, or compare texts
  // character by character, and are not interrupted meanwhile. They are asked first how much they
  // are about to do.
  const LENGTH_MAX = 1024 * 1024;
  const LENGTH_LONG = 4096;
  const COMPARISONS_MAX = 64 * 1024 * 1024;
  const describe = Object.getOwnPropertyDescriptor;
  const isView = ArrayBuffer.isView;
  const isArray = Array.isArray;
  const TooLong = RangeError;

  function look() {
    if (isLate()) throw new TooLong("The script took longer than it may.");
  }

  function checkLength(value) {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return;
    let length;
    if (isView(value)) {
      length = LENGTH_MAX;
    } else {
      const own = describe(value, "length");
      length = own === undefined ? 0 : own.value;
      if (own === undefined ? "length" in value : typeof length !== "number") {
        throw new TooLong("Only arrays can be used as arrays.");
      }
      if (length > LENGTH_MAX) throw new TooLong("The array is longer than it may be.");
    }
    if (length > LENGTH_LONG) look();
  }

  function guard(owner, names, check) {
    for (const name of names) {
      const native = owner[name];
      if (typeof native !== "function") continue;
      const guarded = { [name](...args) { check(this, args); return apply(native, this, args); } }[name];
      define(guarded, "length", { value: native.length, configurable: true });
      define(owner, name, hidden(guarded));
    }
  }

  guard(Array.prototype, ["copyWithin", "fill", "flat", "flatMap", "join", "reverse", "shift", "slice", "sort", "splice", "toLocaleString", "toReversed", "toSorted", "toSpliced", "toString", "unshift", "with"], checkLength);
  guard(Array.prototype, ["concat"], (self, args) => {
    checkLength(self);
    for (let i = 0; i < args.length; i++) if (isArray(args[i]) || (args[i] && args[i][Symbol.isConcatSpreadable])) checkLength(args[i]);
  });
  guard(Array, ["from"], (self, args) => {
    const source = args[0];
    if (source !== null && source !== undefined && typeof source[Symbol.iterator] !== "function") checkLength(source);
  });
  guard(JSON, ["stringify"], look);
  guard(JSON, ["parse"], (self, args) => {
    if (typeof args[0] !== "string" || args[0].length > LENGTH_LONG) look();
  });
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  guard(typed, ["copyWithin", "fill", "includes", "indexOf", "join", "lastIndexOf", "reverse", "set", "slice", "sort", "toLocaleString", "toReversed", "toSorted", "toString", "with"], look);
  guard(String.prototype, ["includes", "indexOf", "lastIndexOf", "replace", "replaceAll", "split"], (self, args) => {
    const length = typeof self === "string" ? self.length : 0;
    if (length <= LENGTH_LONG) return;
    look();
    const sought = args[0];
    if (typeof sought === "string" && length * sought.length > COMPARISONS_MAX) {
      throw new TooLong("The text sought is longer than it may be.");
    }
    if (typeof sought === "object" && sought !== null && !(sought instanceof RegExp)) {
      throw new TooLong("Only texts can be sought in a long text.");
    }
  });
});
