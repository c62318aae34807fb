import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { violations } from "./accessible.mjs";
import { DashboardPage } from "./dashboard_page.mjs";
import { openBrowser } from "./page.mjs";
import { Program, settings, temporaryFolder } from "./program.mjs";
import { addressOf } from "./swarm.mjs";
import { until } from "./until.mjs";

// A run whose dashboard can be seen from other computers: by those with the token.

const kRun = {
  name: "owlery",
  "model.layers": 1,
  "model.width": 16,
  "model.heads": 2,
  "model.context": 16,
  "train.batch": 2,
  "train.steps": 1000000,
  "train.threads": 1,
  "train.eval_batches": 0,
  "train.checkpoint_every": 0,
  "swarm.peers": 1,
  "dashboard.listen": "0.0.0.0:0",
};
const kLimit = { timeout: 300_000 };

describe("a dashboard beyond this computer", kLimit, () => {
  let run, browser, page, address;

  before(async () => {
    run = new Program(["train", "--out", "run", ...settings(kRun)], temporaryFolder());
    address = await addressOf(run);
    browser = await openBrowser();
    page = await open(address.origin + "/");
  }, kLimit);

  after(async () => {
    await browser?.close();
    run?.kill();
  }, kLimit);

  // Browsers tell their console that something was not for them to see.
  afterEach(() => assert.deepEqual(page?.problems.splice(0).filter((problem) => !/status of 401/.test(problem)) ?? [], []));

  // Nobody vouches for its certificate.
  function open(url) {
    return DashboardPage.open(browser, url, { ignoreHTTPSErrors: true });
  }

  it("is found by an address that others can dial", kLimit, () => {
    assert.equal(address.protocol, "https:");
    assert.notEqual(address.hostname, "0.0.0.0");
  });

  it("asks for the token, and shows nothing before", kLimit, async () => {
    await page.byId("token-form").waitFor({ state: "visible" });
    await page.untilFocused("token");
    assert.equal(await page.page.locator("main").isVisible(), false);
    assert.doesNotMatch(await page.page.content(), /owlery/);
    assert.deepEqual(await violations(page), []);
    await page.screenshot("token");
    await page.byId("token").fill("0".repeat(32));
    await page.page.keyboard.press("Enter");
    const note = () => page.text("token-note");
    await until("it is refused", async () => (await note()) === "That is not the token of this run.", note);
    assert.doesNotMatch(await page.page.content(), /owlery/);
  });

  it("shows everything to those with it, for as long as their tab is open", kLimit, async () => {
    await page.byId("token").fill(address.href);
    await page.page.keyboard.press("Enter");
    for (const again of [true, false]) {
      await page.untilConnection("live");
      await page.untilStepAfter(await page.step());
      await page.byId("pause").waitFor({ state: "visible" });
      assert.equal(await page.byId("token-form").isVisible(), false);
      if (again) await page.page.reload();
    }
    assert.deepEqual(await page.page.context().cookies(), []);
  });

  it("takes the token from the address, too", kLimit, async () => {
    await page.close();
    page = await open(address.href);
    await page.untilConnection("live");
    await page.byId("pause").waitFor({ state: "visible" });
    assert.equal(page.page.url(), address.origin + "/");
  });
});
