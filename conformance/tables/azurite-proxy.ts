// Takes the place of the file through which Azurite's table tests start their server.

import { readFileSync } from "fs";
import * as http from "http";
import * as https from "https";

const PORT = 11002;
const target = new URL(process.env.TABLES_STORAGE_URL ?? "http://127.0.0.1:10002");

export interface ITableTestServerFactoryParams {
  metadataDBPath: string;
  enableDebugLog: boolean;
  debugLogFilePath: string;
  loose: boolean;
  skipApiVersionCheck: boolean;
  https: boolean;
  oauth?: string;
}

/** Passes requests on as they are, their paths byte for byte. */
function passOn(request: http.IncomingMessage, response: http.ServerResponse) {
  const { hostname, port } = target;
  const { method, url, headers } = request;
  const passed = http.request({ hostname, port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders);
    answer.pipe(response);
  });
  passed.on("error", () => response.destroy());
  request.pipe(passed);
}

class Proxy {
  private readonly server: http.Server | https.Server;

  constructor(isTls: boolean) {
    this.server = isTls
      ? https.createServer(
          { cert: readFileSync("tests/server.cert"), key: readFileSync("tests/server.key") },
          passOn
        )
      : http.createServer(passOn);
  }

  public start(): Promise<void> {
    return new Promise((resolve) => this.server.listen(PORT, "127.0.0.1", () => resolve()));
  }

  public close(): Promise<void> {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  public clean(): Promise<void> {
    return Promise.resolve();
  }

  public getHttpServerAddress(): string {
    return `http://127.0.0.1:${PORT}`;
  }
}

export default class TableTestServerFactory {
  public static inMemoryPersistence() {
    return true;
  }

  public createServer(params: ITableTestServerFactoryParams): any {
    return new Proxy(params.https);
  }
}
