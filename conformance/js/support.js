// What every test file needs: a server, a client per transport, and one way to expect a refusal.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Agent } from "node:https";
import { after, before, describe } from "node:test";

import { CosmosClient } from "@azure/cosmos";

import { Server } from "./server.js";

const keyOf = (text) => Buffer.from(text.padEnd(64, ".")).toString("base64");
export const READONLY_KEY = keyOf("the read-only key");
export const OTHER_KEY = keyOf("a key of another account");

export const newId = (prefix = "i") => `${prefix}-${randomUUID().slice(0, 13)}`;

/** How one run of a suite talks to its server; filled in before its tests start. */
export class Account {
  constructor(transport) {
    this.transport = transport;
  }

  get endpoint() {
    return this.server.endpoint(this.transport);
  }

  /**
   * Certificates are checked where a test says so; clients on one machine usually do not. Over http
   * the SDK uses an agent of its own.
   */
  agent(options = { rejectUnauthorized: false }) {
    return this.transport === "https" ? new Agent({ keepAlive: true, ...options }) : undefined;
  }

  /** A new client; the account closes it at the end. */
  connect(options = {}) {
    const client = new CosmosClient({
      endpoint: this.endpoint,
      key: this.server.key,
      agent: this.agent(),
      connectionPolicy: { enableBackgroundEndpointRefreshing: false },
      ...options,
    });
    this.clients.push(client);
    return client;
  }

  /** A new container with the key `/pk` unless the definition says otherwise. */
  async container(definition = {}, options = {}) {
    const { container } = await this.database.containers.create(
      { id: newId("c"), partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 }, ...definition },
      options,
    );
    return container;
  }

  async open(server) {
    this.server = server;
    this.clients = [];
    this.client = this.connect();
    this.database = (await this.client.databases.create({ id: newId("db") })).database;
  }

  close() {
    for (const client of this.clients) client.dispose();
  }
}

/** Defines the tests of one file twice, over http and over https, on one server. */
export function suite(name, define) {
  const accounts = ["http", "https"].map((transport) => new Account(transport));
  let server;
  before(async () => {
    server = await Server.start("--memory", "--throttling", "off", "--readonly-key", READONLY_KEY);
    for (const account of accounts) await account.open(server);
  });
  after(async () => {
    for (const account of accounts) account.close();
    await server?.stop();
  });
  for (const account of accounts) {
    describe(`${name} over ${account.transport}`, () => define(account));
  }
}

/**
 * Expects the service to refuse with `status` (and `substatus`, and `text` in the message). The SDK
 * wraps what the service says about a batch.
 */
export async function refused(status, promise, { substatus, text } = {}) {
  const error = await promise.then(
    (response) => assert.fail(`expected ${status}, got ${response?.statusCode ?? JSON.stringify(response)}`),
    (reason) => (reason.code === undefined ? (reason.cause ?? reason) : reason),
  );
  assert.equal(error.code, status, error);
  if (substatus !== undefined) assert.equal(error.substatus ?? 0, substatus);
  if (text !== undefined) assert.match(error.body?.message ?? error.message, text);
  assert.ok(error.headers["x-ms-activity-id"]);
  return error;
}

/** Expects a read to find nothing; the SDK reports that as a status and does not throw. */
export async function missing(container, id, partitionKey) {
  const response = await container.item(id, partitionKey).read();
  assert.equal(response.statusCode, 404);
  assert.equal(response.resource, undefined);
  return response;
}

/** The item as its writer sent it. */
export function withoutSystem(item) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !name.startsWith("_")));
}

export async function all(iterator) {
  return (await iterator.fetchAll()).resources;
}

export async function ids(container) {
  return (await all(container.items.readAll())).map((item) => item.id).sort();
}

/** Polls until `condition` holds; false when the deadline comes first. */
export async function eventually(condition, deadlineMs = 15_000) {
  for (const end = Date.now() + deadlineMs; Date.now() < end; ) {
    if (await condition()) return true;
    await new Promise((resume) => setTimeout(resume, 100));
  }
  return false;
}

/** The sequence number of a token such as `0:-1#57`. */
export const tokenLsn = (token) => Number(token.split("#").at(-1));
