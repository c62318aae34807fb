import type { Peer, Span } from "../model/api";
import { inOrder } from "../model/progress";
import { changesOf, type Model } from "../model/store";
import { html, setHidden, setStyle } from "../page/dom";
import type { View } from "../page/tabs";
import { kHeadHeight, kRowHeight, kWindow, paint } from "./paint";
import { sharesOf, toldBetween } from "./shares";
import { TimeTable } from "./time_table";

const kSecondsBetweenShares = 0.5;
const kSecondsBetweenFrames = 1 / 45; // of the canvas: every other frame of a fast screen

// What a frozen picture needs; the model forgets spans after a minute.
interface Frozen {
  now: number;
  spans: Map<string, Span[]>;
}

export class TimeView implements View {
  readonly id = "time";
  readonly title = "Time";
  readonly root = html("div", { class: "time-view" });
  private readonly canvas = html("canvas", { "data-testid": "timeline", "aria-hidden": "true" });
  private readonly table = new TimeTable();
  private readonly area = html("div", { class: "time-area" }, this.table.root, this.canvas);
  private readonly scroll = html("div", { class: "time-scroll", tabindex: 0, role: "region", "aria-label": "Timeline" }, this.area);
  private readonly nothing = html("p", { class: "nothing" }, "Nobody has computed anything in the last half minute.");
  private readonly hint = html("p", { class: "hint" }, "Where spans are too short to be told apart, heights show their shares of the time.");
  private readonly freeze = html("button", { type: "button", "aria-pressed": "false", "data-testid": "freeze" }, "Freeze");
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly changed = changesOf("peers", "spans");
  private peers: Peer[] = [];
  private frozen: Frozen | null = null;
  private latest: Frozen = { now: 0, spans: new Map() };
  private painted = 0;
  private counted = 0;

  constructor() {
    this.freeze.addEventListener("click", () => this.toggleFreeze());
    this.root.append(html("div", { class: "toolbar" }, legend(), this.freeze), this.nothing, this.scroll, this.hint);
    new ResizeObserver(() => (this.painted = 0)).observe(this.area);
  }

  render(model: Model, now: number): void {
    if (!this.frozen) {
      this.latest = { now, spans: model.spans };
      if (this.changed(model)) this.choosePeers(model);
    }
    const at = performance.now() / 1000;
    const { now: shown, spans } = this.frozen ?? this.latest;
    if (at - this.counted >= kSecondsBetweenShares) {
      this.counted = at;
      const [from, to] = toldBetween(spans.values(), shown - kWindow, shown);
      this.table.renderShares(this.peers.map((peer) => sharesOf(spans.get(peer.name) ?? [], from, to)));
    }
    if (at - this.painted < (this.calm.matches || this.frozen ? 1 : kSecondsBetweenFrames)) return;
    this.painted = at;
    this.paintRows(shown, spans);
  }

  // In other colours.
  redraw(): void {
    this.painted = 0;
  }

  // Those with a place, and whoever did something before it lost its own.
  private choosePeers(model: Model): void {
    const chosen = inOrder(model.peers.values()).filter((peer) => peer.cluster !== null || model.spans.has(peer.name));
    this.peers = chosen;
    setHidden(this.nothing, chosen.length > 0);
    setHidden(this.scroll, chosen.length === 0);
    setHidden(this.hint, chosen.length === 0);
    this.table.render(chosen);
  }

  private paintRows(now: number, spans: Map<string, Span[]>): void {
    const lane = this.table.lane;
    const width = lane.clientWidth;
    const height = kHeadHeight + this.peers.length * kRowHeight;
    const context = this.canvas.getContext("2d");
    if (!context || width === 0) return;
    this.fit(width, height, lane.offsetLeft);
    const rows = this.peers.map((peer) => spans.get(peer.name));
    paint({ context, width, density: this.canvas.width / width, now, rows, visible: this.visibleRows() });
  }

  private fit(width: number, height: number, left: number): void {
    const density = Math.min(2, devicePixelRatio || 1);
    const [wide, high] = [Math.round(width * density), Math.round(height * density)];
    if (this.canvas.width !== wide) this.canvas.width = wide;
    if (this.canvas.height !== high) this.canvas.height = high;
    setStyle(this.canvas, "width", `${width}px`);
    setStyle(this.canvas, "height", `${height}px`);
    setStyle(this.canvas, "left", `${left}px`);
  }

  private visibleRows(): [number, number] {
    const top = this.canvas.getBoundingClientRect().top + kHeadHeight;
    const margin = 8; // rows, for quick scrolling
    const first = Math.floor(-top / kRowHeight) - margin;
    const behind = Math.ceil((innerHeight - top) / kRowHeight) + margin;
    return [Math.max(0, first), Math.min(this.peers.length, behind)];
  }

  private toggleFreeze(): void {
    const copy = () => ({ now: this.latest.now, spans: new Map([...this.latest.spans].map(([name, spans]) => [name, [...spans]])) });
    this.frozen = this.frozen ? null : copy();
    this.freeze.setAttribute("aria-pressed", String(this.frozen !== null));
    this.painted = 0;
  }
}

function legend(): HTMLElement {
  const keys = html("ul", { class: "keys", "aria-label": "Colours of the timeline" });
  for (const [kind, words] of [
    ["forward", "forward"],
    ["backward", "backward"],
    ["update", "update"],
    ["wait", "waiting for others"],
    ["round", "round (the thin line below)"],
    ["empty", "evaluations, checkpoints"],
  ]) {
    keys.append(html("li", {}, html("span", { class: `block ${kind}` }), words));
  }
  return keys;
}
