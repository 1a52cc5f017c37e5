// Starts the real binary on free ports and stops it again.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const START_MS = 20_000;
const STOP_MS = 20_000;

/** One running server. HTTP and HTTPS share its port. */
export class Server {
  static async start(...args) {
    const binary = process.env.PLANISPHERE_BIN;
    const child = spawn(binary, ["serve", "--ports", "auto", "--ready-json", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const server = new Server(child);
    child.stderr.setEncoding("utf8").on("data", (text) => (server.log += text));
    const lines = createInterface({ input: child.stdout });
    const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
    for await (const line of lines) {
      clearTimeout(timer);
      const ready = JSON.parse(line);
      server.key = ready.key;
      server.endpoints = ready.endpoints;
      server.http = ready.endpoints.nosql;
      server.port = Number(new URL(server.http).port);
      child.stdout.resume();
      return server;
    }
    throw new Error(`${binary} did not get ready: ${server.log}`);
  }

  constructor(child) {
    this.child = child;
    this.log = "";
    // A test file that ends early must not leave its server behind.
    process.once("exit", () => child.kill("SIGKILL"));
    child.unref();
  }

  endpoint(transport, host = "127.0.0.1") {
    return `${transport}://${host}:${this.port}/`;
  }

  /** Asks for a graceful shutdown; a server that ignores it fails the suite. */
  async stop() {
    const ended = once(this.child, "exit");
    this.child.kill("SIGTERM");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), STOP_MS);
    const [code, signal] = await ended;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`the server ended with ${code ?? signal}: ${this.log}`);
  }
}
