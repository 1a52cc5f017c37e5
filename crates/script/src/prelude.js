// What a script finds in its world: the context API of the service. Evaluates to a function that
// takes what only the server can do and returns how to run the script.
//
// Everything that is used here after the script has begun is taken from the globals before, so a
// script that changes built-in objects can't make this code do what it would not do by itself.
// Even if it could, nothing here reaches further than `native`.
(function (native, kind, requestText, operation, isLogging) {
  "use strict";
  const apply = Reflect.apply;
  const parse = JSON.parse;
  const stringify = JSON.stringify;
  const freeze = Object.freeze;
  const define = Object.defineProperty;
  const isArray = Array.isArray;
  const text = String;
  const ScriptError = Error;
  const hidden = (value) => ({ value, writable: true, configurable: true, enumerable: false });

  function fail(number, message) {
    const error = new ScriptError(number, message);
    error.body = message;
    return error;
  }

  function needs(name, args, count) {
    if (args.length < count) {
      throw fail(400, `The function "${name}" requires at least ${count} argument(s) but was called with ${args.length} argument(s).`);
    }
  }

  // ---- console ----

  function format(args) {
    if (args.length === 0) return "";
    let out = "";
    let at = 1;
    const show = (value) => {
      if (typeof value === "string") return value;
      if (typeof value === "object" && value !== null && !(value instanceof ScriptError)) {
        try { return stringify(value); } catch { return text(value); }
      }
      return text(value);
    };
    const pattern = args[0];
    if (typeof pattern !== "string") {
      out = show(pattern);
    } else {
      for (let i = 0; i < pattern.length; i++) {
        const next = pattern[i + 1];
        if (pattern[i] !== "%" || next === undefined) { out += pattern[i]; continue; }
        if (next === "%") { out += "%"; i++; continue; }
        if ((next === "s" || next === "d" || next === "i" || next === "f" || next === "j" || next === "o") && at < args.length) {
          out += next === "j" ? stringify(args[at]) : show(args[at]);
          at++; i++;
          continue;
        }
        out += "%";
      }
    }
    for (; at < args.length; at++) out += " " + show(args[at]);
    return out;
  }
  const log = function log() { if (isLogging) native.log(format(arguments)); };
  define(globalThis, "console", hidden(freeze({ log, info: log, warn: log, error: log, debug: log })));

  // ---- what is to be called once the script has returned ----

  const pending = [];
  let next = 0;
  let aborted;

  function later(callback, error, resource, options) {
    pending[pending.length] = [callback, error, resource, options];
  }

  // Calls the oldest callback that waits; says whether there was one.
  function step() {
    if (next === pending.length) return false;
    const [callback, error, resource, options] = pending[next];
    pending[next++] = undefined;
    if (next > 1024) { pending.length > next ? pending.splice(0, next) : (pending.length = 0); next = 0; }
    if (callback) apply(callback, undefined, [error, resource, options]);
    else if (error) throw error;
    return true;
  }

  // ---- the collection ----

  const links = native.links();

  function callbackOptions(reply) {
    const options = {
      statusCode: reply.status,
      currentCollectionSizeInMB: native.sizeMb(),
      maxCollectionSizeInMB: 10240,
    };
    if (reply.continuation) options.continuation = reply.continuation;
    if (reply.notModified) options.notModified = true;
    return options;
  }

  // Options may be left out, with the callback in their place.
  function rest(name, args, from) {
    let options = args[from];
    let callback = args[from + 1];
    if (typeof options === "function" && callback === undefined) { callback = options; options = undefined; }
    if (callback !== undefined && callback !== null && typeof callback !== "function") {
      throw fail(400, `The callback of the function "${name}" must be a function.`);
    }
    if (options === undefined || options === null) options = {};
    if (typeof options !== "object") throw fail(400, `The options of the function "${name}" must be an object.`);
    return [options, callback || undefined];
  }

  function link(name, value) {
    if (typeof value !== "string") throw fail(400, `The link given to the function "${name}" must be a string.`);
    return value;
  }

  function bodyText(name, body) {
    if (typeof body === "string") {
      try { body = parse(body); } catch { throw fail(400, `The body given to the function "${name}" is not valid JSON.`); }
    }
    if (typeof body !== "object" || body === null || isArray(body)) {
      throw fail(400, `The body given to the function "${name}" must be an object.`);
    }
    return stringify(body);
  }

  // Does one thing; the callback hears of it once the script has returned.
  function request(operation, target, body, options, callback, read) {
    const reply = native.call(operation, target, body, stringify(options));
    if (reply === null) return false;
    if (reply.number !== undefined) {
      later(callback, fail(reply.number, reply.message));
    } else {
      const answered = callbackOptions(reply);
      later(callback, undefined, reply.body === undefined ? {} : read(reply.body), answered);
    }
    return true;
  }

  const collection = {
    getSelfLink() { return links[0]; },
    getAltLink() { return links[1]; },
    createDocument(collectionLink, body) {
      needs("createDocument", arguments, 2);
      const [options, callback] = rest("createDocument", arguments, 2);
      return request("create", link("createDocument", collectionLink), bodyText("createDocument", body), options, callback, parse);
    },
    upsertDocument(collectionLink, body) {
      needs("upsertDocument", arguments, 2);
      const [options, callback] = rest("upsertDocument", arguments, 2);
      return request("upsert", link("upsertDocument", collectionLink), bodyText("upsertDocument", body), options, callback, parse);
    },
    replaceDocument(documentLink, body) {
      needs("replaceDocument", arguments, 2);
      const [options, callback] = rest("replaceDocument", arguments, 2);
      return request("replace", link("replaceDocument", documentLink), bodyText("replaceDocument", body), options, callback, parse);
    },
    readDocument(documentLink) {
      needs("readDocument", arguments, 1);
      const [options, callback] = rest("readDocument", arguments, 1);
      return request("read", link("readDocument", documentLink), undefined, options, callback, parse);
    },
    deleteDocument(documentLink) {
      needs("deleteDocument", arguments, 1);
      const [options, callback] = rest("deleteDocument", arguments, 1);
      return request("delete", link("deleteDocument", documentLink), undefined, options, callback, parse);
    },
    readDocuments(collectionLink) {
      needs("readDocuments", arguments, 1);
      const [options, callback] = rest("readDocuments", arguments, 1);
      return request("list", link("readDocuments", collectionLink), undefined, options, callback, parse);
    },
    queryDocuments(collectionLink, query) {
      needs("queryDocuments", arguments, 2);
      const [options, callback] = rest("queryDocuments", arguments, 2);
      if (typeof query !== "string" && (typeof query !== "object" || query === null)) {
        throw fail(400, 'The query given to the function "queryDocuments" must be a string or an object.');
      }
      return request("query", link("queryDocuments", collectionLink), stringify(query), options, callback, parse);
    },
  };
  // Attachments are no longer part of the service.
  for (const name of ["createAttachment", "readAttachment", "readAttachments", "replaceAttachment", "upsertAttachment", "deleteAttachment", "queryAttachments"]) {
    collection[name] = function () {
      const callback = arguments[arguments.length - 1];
      const error = fail(400, `Attachments are not supported: the function "${name}" can't be called.`);
      if (typeof callback !== "function") throw error;
      later(callback, error);
      return true;
    };
  }

  // What queries say about geometries, for objects that the script has at hand.
  collection.spatial = {};
  for (const [name, count] of [["distance", 2], ["within", 2], ["intersects", 2], ["isValid", 1], ["isValidDetailed", 1]]) {
    collection.spatial[name] = function () {
      needs(name, arguments, count);
      const given = count === 1 ? [arguments[0]] : [arguments[0], arguments[1]];
      const answer = native.spatial(name, stringify(given));
      return answer === undefined ? undefined : parse(answer);
    };
  }
  freeze(collection.spatial);

  // ---- request and response ----

  const isPre = kind === "pre";
  const isPost = kind === "post";
  let requestBody = requestText === undefined ? undefined : parse(requestText);
  let isBodySet = false;
  let responseBody = "";
  if (isPost) responseBody = native.response();
  if (isPost && responseBody !== undefined) responseBody = parse(responseBody);

  function append(old, value) {
    if (old === undefined || old === null) return value;
    if (typeof old === "object") old = stringify(old);
    if (typeof value === "object") value = stringify(value);
    const joined = old + value;
    if (typeof joined === "string" && joined.length > native.outputMax) throw fail(413, "The response is larger than it may be.");
    return joined;
  }

  function notWritable(name) { return fail(403, `Not a writable property: ${name}`); }
  function notThere(name) { return fail(400, `Cannot set new values: ${name}`); }

  // An object with the values `names`, of which `writable` may be set.
  function properties(values, mayWrite) {
    return {
      getValue(name) {
        needs("getValue", arguments, 1);
        const value = values[text(name)];
        return value === undefined ? undefined : value.get();
      },
      setValue(name, value) {
        needs("setValue", arguments, 2);
        const known = values[text(name)];
        if (known === undefined) throw notThere(name);
        if (known.set === undefined || !mayWrite) throw notWritable(name);
        known.set(value);
      },
      appendValue(name, value) {
        needs("appendValue", arguments, 2);
        const known = values[text(name)];
        if (known === undefined) throw notThere(name);
        if (known.set === undefined || !mayWrite) throw notWritable(name);
        known.set(append(known.get(), value));
      },
      getBody() { return values.Body.get(); },
      setBody(value) {
        if (!mayWrite) throw notWritable("Body");
        values.Body.set(value);
      },
      appendBody(value) {
        if (!mayWrite) throw notWritable("Body");
        values.Body.set(append(values.Body.get(), value));
      },
    };
  }

  const request_ = properties({
    __proto__: null,
    Body: { get: () => requestBody, set: (value) => { requestBody = value; isBodySet = true; } },
    OperationType: { get: () => operation },
  }, isPre);
  if (operation !== undefined) request_.getOperationType = () => operation;
  if (!isPre) { delete request_.setValue; delete request_.setBody; delete request_.appendBody; delete request_.appendValue; }

  let response;
  if (!isPre) {
    response = properties({
      __proto__: null,
      Body: { get: () => responseBody, set: (value) => { responseBody = value; isBodySet = true; } },
      StatusCode: { get: () => 200 },
    }, true);
    if (isPost) {
      response.getResourceQuotaCurrentUsage = () => `documentsSize=${native.sizeMb() * 1024};collectionSize=${native.sizeMb() * 1024};`;
      response.getMaxResourceQuota = () => "documentsSize=10485760;collectionSize=10485760;";
    }
  }

  const context = {
    getCollection: () => collection,
    getRequest: () => request_,
    getResponse: () => {
      if (!response) throw fail(400, "There is no response before the operation is carried out.");
      return response;
    },
    abort(error) {
      if (aborted === undefined) aborted = { error };
      throw error;
    },
  };
  define(globalThis, "getContext", hidden(() => context));
  const shortcut = collection;
  shortcut.request = request_;
  if (response) shortcut.response = response;
  define(globalThis, "__", hidden(shortcut));

  // Answers with rows: as they are, or behind what the script has answered before.
  function answer(rows) {
    if (response) responseBody === "" ? response.setBody(rows) : response.appendBody(rows);
  }

  return {
    collection,
    helpers: { fail, needs, native, later, links, callbackOptions, answer },
    step,
    aborted: () => aborted,
    start: (script, argsText) => apply(script, globalThis, argsText === undefined ? [] : parse(argsText)),
    // What the script leaves behind as text; undefined if it never set it.
    body: () => {
      const out = isBodySet ? stringify(isPre ? requestBody : responseBody) : undefined;
      if (out !== undefined && out.length > native.outputMax) throw fail(413, "The response is larger than it may be.");
      return out;
    },
  };
});
