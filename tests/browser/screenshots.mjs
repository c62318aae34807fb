import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { DashboardPage } from "./dashboard_page.mjs";
import { kPhone, openBrowser } from "./page.mjs";
import { Program, settings, temporaryFolder } from "./program.mjs";
import { addressOf } from "./swarm.mjs";
import { until } from "./until.mjs";

// The pictures of the documents, taken from a real run that loses a peer: screenshots.mjs EXAMPLE.TOML FOLDER

const [example, target] = process.argv.slice(2).map((path) => resolve(path));
const kSteps = 250;
const kMostBytes = 200_000;

async function take(page, name) {
  const path = join(target, `${name}.png`);
  await page.page.screenshot({ path });
  const { size } = statSync(path);
  console.log(`${name}.png: ${Math.ceil(size / 1000)} kB`);
  if (size > kMostBytes) throw new Error(`${path} has ${size} bytes, more than ${kMostBytes}`);
}

mkdirSync(target, { recursive: true });
const chaos = ["--chaos", "kill 3 at 20s, rejoin 8s"];
const network = { "network.bandwidth": "1gbit", "network.latency": "1ms" }; // as at home, so that links have something to do
const run = new Program(
  ["train", example, "--out", "run", ...chaos, ...settings({ ...network, "train.steps": kSteps, "train.eval_every": 25 })],
  temporaryFolder(),
);
const browser = await openBrowser();
const page = await DashboardPage.open(browser, (await addressOf(run)).href);

async function allTrain() {
  return /^5 of/.test(await page.text("peers"));
}

// One is lost, and soon another stands in for it.
await page.show("events");
await until("a peer is lost", async () => (await page.events("lost")).length > 0, () => run.err);
await page.show("swarm");
await until("all places are taken", allTrain, () => page.text("peers"));
await page.byId("peer-peer-1").click();
await page.drawn();
await take(page, "dashboard-swarm");
await page.page.keyboard.press("Escape");

// It comes back.
await page.untilState("peer-3", "training");
await until("all train again", allTrain, () => page.text("peers"));
await page.show("time");
await page.untilStepAfter((await page.step()) + 5);
await take(page, "dashboard-time");
await page.show("events");
await page.byId("event-text").fill("peer-3");
await page.drawn();
await take(page, "dashboard-events");

// Later.
for (const part of [0.4, 0.6, 0.8]) await until("steps", async () => (await page.step()) > part * kSteps, () => run.err);
await page.show("training");
await take(page, "dashboard-training");
await page.show("swarm");
await page.page.emulateMedia({ colorScheme: "dark" });
await page.drawn();
await take(page, "dashboard-swarm-dark");
await page.page.setViewportSize(kPhone);
await page.page.emulateMedia({ colorScheme: "light" });
await page.drawn();
await take(page, "dashboard-phone");

await browser.close();
run.kill("SIGINT");
await run.ended();
if (page.problems.length > 0) throw new Error(page.problems.join("\n"));
