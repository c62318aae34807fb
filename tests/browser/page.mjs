import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { kBuild } from "./program.mjs";

const kFlags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const kDesktop = { width: 1280, height: 800 };
export const kPhone = { width: 390, height: 844 };

export function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: kFlags });
}

// A page that somebody watches closely. Each has a browser's memory of its own: cookies, storage.
export class WatchedPage {
  problems = []; // errors on its console, and requests to others than its own host
  requests = []; // all addresses
  mayLoseConnection = false; // then failures of the network are none of the problems
  #host = null;

  // `options` are those of the browser's context.
  static async open(browser, url, options = {}) {
    const watched = new this();
    const context = await browser.newContext({ viewport: kDesktop, colorScheme: "light", ...options });
    watched.page = await context.newPage();
    watched.#host = new URL(url).host;
    watched.#watch();
    await watched.page.goto(url);
    return watched;
  }

  byId(id) {
    return this.page.getByTestId(id);
  }

  async text(id) {
    return (await this.byId(id).textContent()) ?? "";
  }

  async screenshot(name) {
    const folder = process.env.ROOKERY_SCREENSHOTS ?? join(kBuild, "screenshots");
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}.png`) });
  }

  close() {
    return this.page.context().close();
  }

  #watch() {
    const { page } = this;
    page.on("pageerror", (error) => this.problems.push(`exception: ${error.stack ?? error}`));
    page.on("console", (message) => {
      if (message.type() !== "error" && message.type() !== "warning") return;
      if (this.mayLoseConnection && isOfNetwork(message.text())) return;
      this.problems.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on("request", (request) => this.#requested(request.url()));
    page.on("websocket", (socket) => this.#requested(socket.url()));
  }

  #requested(url) {
    this.requests.push(url);
    const { protocol, host } = new URL(url);
    if (protocol === "data:" || protocol === "blob:") return;
    if (host !== this.#host) this.problems.push(`request to another host: ${url}`);
  }
}

function isOfNetwork(text) {
  return /^WebSocket connection to '\S+' failed/.test(text) || /^Failed to load resource: net::ERR_/.test(text);
}
