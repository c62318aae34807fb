import { WatchedPage } from "./page.mjs";
import { until } from "./until.mjs";

export const kViews = ["swarm", "training", "time", "events"];

// The page of a run, by what somebody sees and does there.
export class DashboardPage extends WatchedPage {
  async show(view) {
    await this.byId(`tab-${view}`).click();
    await this.page.locator(`#panel-${view}`).waitFor({ state: "visible" });
    await this.drawn();
  }

  async step() {
    return Number.parseInt(await this.text("step"), 10);
  }

  async generation() {
    return Number(await this.text("generation"));
  }

  phase() {
    return this.byId("phase").getAttribute("data-phase");
  }

  connection() {
    return this.byId("connection").getAttribute("data-status");
  }

  stateOf(peer) {
    return this.byId(`peer-${peer}`).getAttribute("data-state", { timeout: 1000 }).catch(() => null);
  }

  // The sentences of the events of a kind, the newest first. They are those of the view of events.
  events(kind) {
    return this.page.locator(`[data-testid=event-row][data-kind="${kind}"] .what`).allTextContents();
  }

  // From now on, all that is read out to those who do not see the page: a function that gives it.
  async announcements() {
    await this.byId("announcer").evaluate((element) => {
      const said = (window.said = []);
      new MutationObserver(() => said.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
    });
    return () => this.page.evaluate(() => window.said);
  }

  focused() {
    return this.page.evaluate(() => document.activeElement?.getAttribute("data-testid") ?? null);
  }

  async untilState(peer, state) {
    await until(`${peer} is ${state}`, async () => (await this.stateOf(peer)) === state, () => this.stateOf(peer));
  }

  async untilFocused(id) {
    await until(`${id} has the focus`, async () => (await this.focused()) === id, () => this.focused());
  }

  async untilPhase(phase) {
    await until(`the run is ${phase}`, async () => (await this.phase()) === phase, () => this.phase());
  }

  async untilConnection(status) {
    await until(`the connection is ${status}`, async () => (await this.connection()) === status, () => this.connection());
  }

  async untilStepAfter(step) {
    return until(`a step after ${step}`, async () => (await this.step()) > step, () => this.step());
  }

  // Waits until what has just changed is on the screen: charts take a few frames.
  async drawn() {
    const frames = await this.page.evaluate(() => window.rookery.frames);
    await this.page.waitForFunction((before) => window.rookery.frames > before + 6, frames);
  }

  // Goes on with the key of tabulation, as somebody without a mouse does.
  async tabTo(id) {
    for (let pressed = 0; pressed < 60; pressed++) {
      if ((await this.focused()) === id) return;
      await this.page.keyboard.press("Tab");
    }
    throw new Error(`${id} cannot be reached by keyboard`);
  }

  // How many pixels of a canvas have about this colour ("rgb(1, 2, 3)"), and how many have another; lines of it are chosen in pixels of
  // the page.
  pixels(canvas, colour, [top, bottom] = [0, Infinity]) {
    return canvas.evaluate(
      (element, { colour, top, bottom }) => {
        const density = element.height / element.clientHeight;
        const last = Math.min(element.height, bottom * density);
        const copy = new OffscreenCanvas(element.width, element.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(element, 0, 0);
        const { data } = copy.getImageData(0, top * density, element.width, last - top * density);
        const wanted = colour.match(/[\d.]+/g).map(Number);
        let same = 0;
        for (let at = 0; at < data.length; at += 4) {
          const isNear = wanted.slice(0, 3).every((value, channel) => Math.abs(value - data[at + channel]) < 12);
          if (isNear && data[at + 3] > 200) same++;
        }
        return { same, other: data.length / 4 - same };
      },
      { colour, top, bottom: bottom === Infinity ? 1e6 : bottom },
    );
  }

  // A property of the style that an element really has.
  styleOf(locator, property) {
    return locator.evaluate((element, property) => getComputedStyle(element)[property], property);
  }
}
