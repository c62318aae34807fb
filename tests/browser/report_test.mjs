import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { inEveryShape, violations } from "./accessible.mjs";
import { openBrowser, WatchedPage } from "./page.mjs";
import { run, settings, temporaryFolder } from "./program.mjs";

// Three runs of the same model, and their report, opened from the disk by a browser that has no network.

const kSteps = 12;
const kMethods = ["allreduce", "diloco", "palsgd"];
const kRun = {
  "model.layers": 1,
  "model.width": 32,
  "model.heads": 2,
  "model.context": 32,
  "train.steps": kSteps,
  "train.batch": 4,
  "train.threads": 1,
  "train.eval_every": 3,
  "train.eval_batches": 1,
  "swarm.peers": 2,
  "swarm.clusters": 2,
  "sync.interval": 4,
  "sync.warmup_steps": 4,
  "dashboard.listen": "off",
};
const kLimit = { timeout: 300_000 };

// As a table of texts; a cell of a number is the number to its last digit. Line breaks that a narrow screen may make are no part of it.
function readTable(table) {
  const cellOf = (cell) => cell.querySelector("data")?.value ?? (cell.querySelector("code") ?? cell).textContent.trim();
  return [...table.rows].map((row) => [...row.cells].map(cellOf));
}

// The points of a path that is made of lines.
function pointsOf(path) {
  return [...path.matchAll(/[ML]\s*(-?[\d.]+)[ ,](-?[\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
}

// Whether two lists say the same on two scales: each of `drawn` is a * value + b.
function assertScaled(drawn, values, what) {
  const [low, high] = [values.indexOf(Math.min(...values)), values.indexOf(Math.max(...values))];
  const scale = (drawn[high] - drawn[low]) / (values[high] - values[low]);
  assert.ok(Math.abs(drawn[high] - drawn[low]) > 10, `${what}: ${drawn}`);
  values.forEach((value, i) => {
    const expected = drawn[low] + (value - values[low]) * scale;
    assert.ok(Math.abs(drawn[i] - expected) < 1, `${what}, point ${i}: at ${drawn[i]} instead of ${expected}`);
  });
  return scale;
}

describe("the report of three runs", kLimit, () => {
  let folder, browser, page, said;
  const summaries = new Map();
  const metrics = new Map();

  before(async () => {
    folder = temporaryFolder();
    for (const method of kMethods) {
      await run(["train", "--out", method, ...settings({ ...kRun, "sync.method": method })], folder);
      summaries.set(method, JSON.parse(readFileSync(join(folder, method, "summary.json"), "utf8")));
      const lines = readFileSync(join(folder, method, "metrics.jsonl"), "utf8").trimEnd().split("\n");
      metrics.set(method, lines.map((line) => JSON.parse(line)));
    }
    said = await run(["report", ...kMethods, "-o", "report.html", "--csv", "metrics.csv"], folder);
    browser = await openBrowser();
    page = await WatchedPage.open(browser, pathToFileURL(join(folder, "report.html")).href, { offline: true });
  }, kLimit);

  after(() => browser?.close(), kLimit);

  afterEach(() => assert.deepEqual(page?.problems.splice(0) ?? [], []));

  it("needs nothing but itself", kLimit, async () => {
    assert.deepEqual(page.requests.filter((url) => !url.startsWith("data:")), [page.page.url()]);
    assert.equal(await page.page.locator("script").count(), 0);
    assert.equal(await page.page.title(), "3 runs compared – Rookery report");
    assert.match(said, /report\.html, 3 runs/);
    await page.screenshot("report");
  });

  it("says how the runs ended", kLimit, async () => {
    const cards = await page.page.locator(".runs li").allTextContents();
    assert.equal(cards.length, kMethods.length);
    kMethods.forEach((method, i) => assert.match(cards[i], new RegExp(`^${method}finished after ${kSteps} steps\\s+gpt on tales, 2 peers, ${method}`)));
  });

  it("has the numbers of the summaries", kLimit, async () => {
    const [head, ...rows] = await page.page.locator("#summary table").evaluate(readTable);
    assert.deepEqual(head.slice(1), kMethods);
    const shown = new Map(rows.map(([field, ...values]) => [field, values]));
    const elsewhere = new Set(["predicted_step_seconds", "measured_step_seconds"]);
    kMethods.forEach((method, column) => {
      const summary = Object.entries(summaries.get(method)).filter(([field, value]) => typeof value === "number" && !elsewhere.has(field));
      assert.ok(summary.length > 10);
      for (const [field, value] of summary) assert.equal(Number(shown.get(field)?.[column]), value, `${method}: ${field}`);
      assert.equal(shown.get("identical_copies")[column], "yes");
    });
    assert.notEqual(summaries.get("allreduce").final_loss, summaries.get("diloco").final_loss);
  });

  it("rounds them for people", kLimit, async () => {
    const row = page.page.locator("#summary tbody tr", { hasText: "final_loss" });
    const texts = await row.locator("data").allTextContents();
    kMethods.forEach((method, i) => assert.equal(texts[i], summaries.get(method).final_loss.toFixed(4)));
  });

  it("compares predicted and measured step times", kLimit, async () => {
    const [, ...rows] = await page.page.locator("#prediction table").evaluate(readTable);
    assert.equal(rows.length, kMethods.length);
    kMethods.forEach((method, i) => {
      const { predicted_step_seconds: predicted, measured_step_seconds: measured } = summaries.get(method);
      assert.deepEqual(rows[i].slice(0, 3), [method, String(predicted), String(measured)]);
      assert.ok(Math.abs(Number.parseFloat(rows[i][3]) - 100 * (predicted / measured - 1)) < 0.06, rows[i][3]);
    });
  });

  it("lists the settings that differ, and no others", kLimit, async () => {
    const tables = page.page.locator("#settings table");
    const [head, ...rows] = await tables.first().evaluate(readTable);
    assert.deepEqual(head.slice(1), kMethods);
    assert.deepEqual(rows, [["sync.method", ...kMethods]]);
    const all = await tables.nth(1).evaluate(readTable);
    assert.deepEqual(all.find(([key]) => key === "train.steps"), ["train.steps", ...kMethods.map(() => String(kSteps))]);
  });

  // A curve of each run, in their order, whose points lie where the numbers are.
  async function assertCurves(title, field) {
    const picture = page.page.locator("figure svg", { has: page.page.locator(`text.title:text-is("${title}")`) });
    assert.equal(await picture.count(), 1, title);
    const paths = await picture.locator("path.line").evaluateAll((lines) => lines.map((line) => line.getAttribute("d")));
    assert.equal(paths.length, kMethods.length, title);
    kMethods.forEach((method, i) => {
      const lines = metrics.get(method).filter((line) => field in line);
      const points = pointsOf(paths[i]);
      assert.equal(points.length, lines.length, `${title}: ${method}`);
      assert.ok(assertScaled(points.map(([x]) => x), lines.map((line) => line.step), `${title}: ${method}, x`) > 0);
      assert.ok(assertScaled(points.map(([, y]) => y), lines.map((line) => line[field]), `${title}: ${method}, y`) < 0);
    });
  }

  it("draws the curves of the metrics", kLimit, async () => {
    await assertCurves("Training loss by step", "loss");
    await assertCurves("Evaluation loss by step", "eval_loss");
    const titles = await page.page.locator("figure text.title").allTextContents();
    for (const title of ["Training loss by time", "Training loss by samples", "Step time", "Tokens per second"]) {
      assert.ok(titles.includes(title), title);
    }
  });

  it("has all metrics in its table of comma-separated values", kLimit, async () => {
    const [head, ...rows] = readFileSync(join(folder, "metrics.csv"), "utf8").trimEnd().split("\n").map((line) => line.split(","));
    const expected = kMethods.flatMap((method) => metrics.get(method).map((line) => ({ run: method, ...line })));
    assert.equal(rows.length, kMethods.length * kSteps);
    assert.deepEqual(new Set(head), new Set(expected.flatMap(Object.keys)));
    expected.forEach((line, i) => {
      assert.deepEqual(rows[i], head.map((name) => String(line[name] ?? "")).map((text, column) => sameNumber(rows[i][column], text)));
    });
  });

  it("can be used by everybody", kLimit, async () => {
    for (const details of await page.page.locator("details > summary").all()) await details.click();
    await inEveryShape(page, async (shape) => {
      assert.deepEqual(await violations(page), [], shape);
      const isTooWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
      assert.equal(await page.page.evaluate(isTooWide), false, `${shape}: wider than the screen`);
      await page.page.evaluate(() => scrollTo(0, 0));
      await page.screenshot(`report-${shape}`);
    });
  });
});

// The first text, if both are the same number: programs write 1e-05 in different ways.
function sameNumber(text, other) {
  return text !== "" && other !== "" && Number(text) === Number(other) ? text : other;
}
