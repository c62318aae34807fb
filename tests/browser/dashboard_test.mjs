import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { inEveryShape, violations } from "./accessible.mjs";
import { DashboardPage, kViews } from "./dashboard_page.mjs";
import { kDesktop, kPhone, openBrowser } from "./page.mjs";
import { Proxy } from "./proxy.mjs";
import { Swarm } from "./swarm.mjs";
import { until } from "./until.mjs";

// One run from its first step to its end, as somebody sees it who looks at its page. Tests go on where the one before has left it.

const kRun = {
  name: "nest",
  "model.layers": 2,
  "model.width": 32,
  "model.heads": 2,
  "model.context": 32,
  "train.batch": 2,
  "train.steps": 1000000,
  "train.threads": 1,
  "train.eval_every": 20,
  "train.eval_batches": 1,
  "train.checkpoint_every": 0,
  "swarm.peers": 4,
  "swarm.clusters": 4,
  "sync.method": "diloco",
  "sync.interval": 4,
  "sync.warmup_steps": 0,
};
const kLimit = { timeout: 300_000 }; // each wait has a deadline of its own; this is for what hangs

// To four decimals, of a number that may have been rounded on its way.
function assertRounded(text, value, what) {
  assert.match(text, /^\d+\.\d{4}$/, what);
  assert.ok(Math.abs(Number(text) - value) < 1.1e-4, `${what}: ${text} instead of ${value}`);
}

describe("the dashboard of a swarm", kLimit, () => {
  let swarm, proxy, browser, page, address;

  before(async () => {
    swarm = new Swarm(kRun);
    const printed = await swarm.address();
    for (const name of ["a", "b", "c", "d"]) await swarm.join(name);
    proxy = await Proxy.to(Number(printed.port));
    address = `http://127.0.0.1:${proxy.port}/`;
    browser = await openBrowser();
    page = await DashboardPage.open(browser, address + printed.hash);
  }, kLimit);

  after(async () => {
    await browser?.close();
    proxy?.close();
    swarm?.end();
  }, kLimit);

  afterEach(() => assert.deepEqual(page?.problems.splice(0) ?? [], []));

  // What the coordinator says to anybody who asks.
  async function state() {
    return (await fetch(`${address}api/state`)).json();
  }

  // On the coordinator's clock.
  async function secondsPass(number) {
    const { seconds } = await state();
    await until(`${number} seconds more`, async () => (await state()).seconds > seconds + number);
  }

  it("shows four peers that train", kLimit, async () => {
    for (const name of ["a", "b", "c", "d"]) await page.untilState(name, "training");
    await page.untilPhase("training");
    await until("all are counted", async () => (await page.text("peers")) === "4 of 4", () => page.text("peers"));
    assert.equal(await page.page.title(), "nest: training · Rookery");
    assert.equal(await page.connection(), "live");
    await page.screenshot("swarm");
  });

  it("takes the token out of the address", kLimit, async () => {
    assert.equal(page.page.url(), address);
  });

  it("keeps the token for itself, for as long as its tab is open", kLimit, async () => {
    await page.byId("pause").waitFor({ state: "visible" });
    await page.page.reload();
    await page.byId("pause").waitFor({ state: "visible" });
    assert.deepEqual(await page.page.context().cookies(), []); // which any other server of this computer would be sent
  });

  it("shows how step and loss move", kLimit, async () => {
    await page.untilStepAfter(await page.step());
    const loss = await until("a loss", async () => Number(await page.text("loss")) || null, () => page.text("loss"));
    await until("another loss", async () => Number(await page.text("loss")) !== loss, () => page.text("loss"));
    assert.match(await page.text("step"), /^\d+ of 1000000$/);
    assert.match(await page.text("tokens"), /^\d/);
  });

  it("has losses that are those of the run", kLimit, async () => {
    await page.untilStepAfter(20);
    await page.show("training");
    const chart = page.byId("chart-loss");
    await chart.getByText("show as table").click();
    const rows = chart.locator("tbody tr");
    await until("20 rows", async () => (await rows.count()) === 20, () => rows.count());
    const texts = await rows.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    await chart.getByText("show as table").click();
    const { stride } = (await state()).series;
    assert.equal(stride, 1, "a row for each step, so early");
    const metrics = new Map(swarm.metrics().map((line) => [line.step, line]));
    for (const [step, loss, evaluation] of texts) {
      const line = metrics.get(Number(step));
      assert.ok(line, `step ${step}`);
      assertRounded(loss, line.loss, `step ${step}`);
      if (line.eval_loss === undefined) assert.equal(evaluation, "–", `step ${step}`);
      else assertRounded(evaluation, line.eval_loss, `step ${step}`);
    }
    assert.ok(texts.some(([, , evaluation]) => evaluation !== "–"));
  });

  it("draws curves", kLimit, async () => {
    for (const id of ["loss", "tokens", "step-time", "wait", "lr"]) {
      const chart = page.byId(`chart-${id}`);
      const colour = await page.styleOf(chart.locator(".swatch").first(), "borderTopColor");
      const drawn = await page.pixels(chart.locator("canvas"), colour);
      assert.ok(drawn.same > 100 && drawn.other > drawn.same, `${id}: ${JSON.stringify(drawn)}`);
    }
    const label = await page.byId("chart-loss").getByRole("img").getAttribute("aria-label");
    assert.match(label, /^Loss, at step \d+: loss [\d.]+, eval loss [\d.]+$/);
    await page.screenshot("training");
  });

  it("draws what each peer did", kLimit, async () => {
    await page.show("time");
    const rows = page.page.locator(".time-table tbody tr");
    await until("four rows", async () => (await rows.count()) === 4, () => rows.count());
    const canvas = page.byId("timeline");
    const kinds = ["forward", "backward"];
    const colours = await Promise.all(kinds.map((kind) => page.styleOf(page.page.locator(`.time-view .block.${kind}`), "backgroundColor")));
    const top = await canvas.evaluate((element) => element.getBoundingClientRect().top);
    for (let row = 0; row < 4; row++) {
      const box = await rows.nth(row).boundingBox();
      const lane = [box.y - top + 4, box.y - top + 18]; // what it computed; rounds are below
      const drawn = () => Promise.all(colours.map((colour) => page.pixels(canvas, colour, lane)));
      await until(`row ${row} is drawn`, async () => (await drawn()).every(({ same }) => same > 100), drawn);
      const shares = () => rows.nth(row).locator("td.share").evaluateAll((cells) => cells.map((cell) => Number.parseFloat(cell.textContent)));
      const isWhole = ([wait, forward, backward, update, , rest]) =>
        wait > 0 && forward > 0 && backward > 0 && update > 0 && Math.abs(wait + forward + backward + update + rest - 100) < 4; // each is rounded
      await until(`shares in row ${row} that are those of all its time`, async () => isWhole(await shares()), shares);
    }
    await page.screenshot("time");
  });

  it("shows a peer's hardware and memory to those without a mouse", kLimit, async () => {
    await page.show("swarm");
    await page.tabTo("peer-b");
    await page.page.keyboard.press("Enter");
    const panel = page.byId("peer-panel");
    await panel.waitFor({ state: "visible" });
    await page.drawn();
    const known = (await state()).peers.find((peer) => peer.name === "b");
    const fact = (label) => panel.locator(`dt:text-is("${label}") + dd`).textContent();
    assert.equal(await panel.getByRole("heading", { level: 3 }).textContent(), "b");
    assert.ok(known.hardware.length > 0);
    assert.equal(await fact("hardware"), known.hardware);
    assert.equal(await fact("cores"), String(known.cores));
    assert.equal(await fact("speed"), "10%");
    assert.match(await panel.locator(".memory-row", { hasText: "resident" }).locator(".amount").textContent(), /^[\d.]+ [KMG]iB/);
    await page.screenshot("peer");

    await page.page.keyboard.press("Escape");
    await panel.waitFor({ state: "hidden" });
    await page.untilFocused("peer-b");
  });

  it("shows the same on a phone", kLimit, async () => {
    await page.page.setViewportSize(kPhone);
    await page.tabTo("peer-c");
    await page.page.keyboard.press("Enter");
    await page.byId("peer-panel").waitFor({ state: "visible" });
    await page.drawn();
    await page.screenshot("peer-phone");
    await page.page.keyboard.press("Escape");
    await page.byId("peer-panel").waitFor({ state: "hidden" });
    await page.untilFocused("peer-c");
    const isTooWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;
    for (const view of kViews) {
      await page.show(view);
      assert.equal(await page.page.evaluate(isTooWide), false, `${view} is wider than the screen`);
    }
    await page.page.setViewportSize(kDesktop);
    await page.show("swarm");
  });

  it("shows everything to those without the token, and lets them do nothing", kLimit, async () => {
    const guest = await DashboardPage.open(browser, address);
    for (const name of ["a", "b", "c", "d"]) await guest.untilState(name, "training");
    await guest.untilStepAfter(await guest.step());
    for (const view of kViews) {
      await guest.show(view);
      assert.equal(await guest.page.getByRole("button", { name: /^(pause|resume|checkpoint|stop)/i }).count(), 0);
    }
    assert.ok((await guest.events("began")).length > 0);
    await guest.screenshot("guest");
    assert.deepEqual(guest.problems, []);
    await guest.close();
    for (const command of ["pause", "resume", "checkpoint", "stop"]) {
      assert.equal((await fetch(`${address}api/${command}`, { method: "POST" })).status, 401, command);
    }
    assert.equal((await state()).run.phase, "training");
  });

  it("shows a peer that was lost", kLimit, async () => {
    const generation = await page.generation();
    const said = await page.announcements();
    const ofD = async () => (await page.events("lost")).filter((text) => text.startsWith("Important: d was lost"));
    await page.show("events");
    assert.deepEqual(await ofD(), []);
    swarm.peers.get("d").kill("SIGKILL");
    await until("an event", async () => (await ofD()).length > 0, () => page.events("missed"));
    await page.screenshot("lost-events");
    await page.show("swarm");
    await page.untilState("d", "lost");
    await until("a newer plan", async () => (await page.generation()) > generation, () => page.generation());
    const isAnnounced = async () => (await said()).some((text) => /\bd was (lost|missed)/.test(text));
    await until("it is announced", isAnnounced, said);
    await page.show("events");
    const planned = async () => (await page.events("planned")).some((text) => /generation \d+, as d was lost/.test(text));
    await until("why there is another plan", planned, () => page.events("planned"));
    await page.show("swarm");
    await page.untilStepAfter(await page.step());
    await page.screenshot("lost");
  });

  it("shows a newcomer", kLimit, async () => {
    const generation = await page.generation();
    await swarm.join("e");
    await page.untilState("e", "training");
    await until("a newer plan", async () => (await page.generation()) > generation, () => page.generation());
    await page.show("events");
    await until("an event", async () => (await page.events("joined"))[0]?.startsWith("e joined"), () => page.events("joined"));
    await page.show("swarm");
    await page.screenshot("newcomer");
  });

  it("shows the log of a peer", kLimit, async () => {
    await page.byId("peer-e").focus();
    await page.page.keyboard.press("Enter");
    const log = page.byId("peer-panel").getByLabel("Log");
    const line = /^\d\d:\d\d:\d\d [A-Z] \S.*$/m; // whichever: only the last are kept
    await until("lines of its log", async () => line.test(await log.textContent()), async () => (await state()).peers);
    await log.scrollIntoViewIfNeeded();
    await page.screenshot("log");
    await page.page.keyboard.press("Escape");
    await page.byId("peer-panel").waitFor({ state: "hidden" });
    await page.untilFocused("peer-e");
  });

  it("says when it is cut off, and goes on after that", kLimit, async (t) => {
    page.mayLoseConnection = true;
    proxy.cut();
    t.after(() => {
      proxy.mend();
      page.mayLoseConnection = false;
    });
    await page.untilConnection("lost");
    assert.match(await page.text("connection"), /^connection lost, trying again; what you see is .+ old$/);
    assert.ok(await page.byId("connection").isVisible());
    assert.equal(await page.page.evaluate(() => window.rookery.connected), false);
    const step = await page.step();
    await page.screenshot("cut-off");
    proxy.mend();
    await page.untilConnection("live");
    await until("no warning", async () => (await page.text("connection")) === "", () => page.text("connection"));
    await page.untilStepAfter(step);
    assert.equal((await state()).run.phase, "training");
    await page.screenshot("live-again");
  });

  it("pauses the run and resumes it", kLimit, async (t) => {
    const resume = page.byId("resume");
    t.after(async () => (await resume.isVisible()) && resume.click());
    await page.byId("pause").click();
    await page.untilPhase("paused");
    await secondsPass(1); // the last steps may be told of after that
    const { step } = (await state()).run;
    await secondsPass(2);
    assert.equal((await state()).run.step, step);
    assert.equal(await page.step(), step);
    assert.equal(await page.phase(), "paused");
    await page.untilFocused("resume"); // it has taken the place of the one that was clicked
    await page.screenshot("paused");
    await resume.click();
    await page.untilPhase("training");
    await page.untilStepAfter(step);
    assert.ok(await page.byId("pause").isVisible());
  });

  it("saves a checkpoint", kLimit, async () => {
    await page.show("events");
    assert.deepEqual(await page.events("checkpoint"), []);
    assert.deepEqual(swarm.checkpoints(), []);
    await page.byId("checkpoint").click();
    await until("an event", async () => (await page.events("checkpoint")).length > 0);
    await until("the files", () => swarm.checkpoints().some((name) => /^step-\d+$/.test(name)), () => swarm.checkpoints());
    await page.screenshot("checkpoint");
  });

  it("can be used by everybody", kLimit, async () => {
    await inEveryShape(page, async (shape) => {
      for (const view of kViews) {
        await page.show(view);
        assert.deepEqual(await violations(page), [], `${view}, ${shape}`);
        await page.screenshot(`${view}-${shape}`);
      }
      await page.show("swarm");
      await page.byId("peer-a").click();
      await page.drawn();
      assert.deepEqual(await violations(page), [], `a peer, ${shape}`);
      await page.page.keyboard.press("Escape");
    });
  });

  it("stops the run, but asks before", kLimit, async () => {
    await page.byId("stop").click();
    const question = page.byId("stop-dialog");
    await question.waitFor({ state: "visible" });
    assert.deepEqual(await violations(page), []);
    await page.screenshot("stop");
    await question.getByRole("button", { name: "Go on training" }).click();
    await question.waitFor({ state: "hidden" });
    await page.untilStepAfter(await page.step());

    page.mayLoseConnection = true;
    await page.byId("stop").click();
    await page.byId("stop-confirm").click();
    assert.equal(await swarm.coordinator.ended(), 130, swarm.coordinator.err);
    await page.untilConnection("over");
    assert.match(await page.text("connection"), /^the run is over, and its server has gone/);
    assert.ok(["ended", "failed"].includes(await page.phase()));
    for (const name of ["a", "b", "c", "e"]) assert.equal(await swarm.peers.get(name).ended(), 0, swarm.peers.get(name).err);
    assert.equal(await swarm.peers.get("d").ended(), "SIGKILL");
    await page.screenshot("over");
  });
});
