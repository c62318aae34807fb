import type { Peer } from "../model/api";
import type { Model } from "../model/store";
import { html, setAttribute, setHidden, setText } from "../page/dom";
import { bytes, count, duration, kUnknown, layers, percent, rate } from "../page/format";
import { icon, setIcon } from "../page/icons";
import { plural } from "../page/words";
import { LinkTable } from "./link_table";
import { MemoryBars } from "./memory_bars";

const kFacts: [label: string, value: (peer: Peer) => string][] = [
  ["cluster", (peer) => (peer.cluster === null ? "none" : String(peer.cluster))],
  ["stage", (peer) => (peer.stage === null ? "none" : String(peer.stage))],
  ["layers", (peer) => (peer.layers ? `${layers(peer.layers)} (${plural(peer.layers[1] - peer.layers[0], "layer")})` : "none")],
  ["stands in", (peer) => (peer.stands_in ? "yes, its process has another place, too" : "no")],
  ["host", (peer) => peer.host || kUnknown],
  ["hardware", (peer) => peer.hardware || kUnknown],
  ["cores", (peer) => count(peer.cores)],
  ["speed", (peer) => percent(peer.speed)],
  ["step", (peer) => String(peer.step)],
  ["a step takes", (peer) => duration(peer.step_seconds)],
  ["of that, computing", (peer) => duration(peer.compute_seconds)],
  ["of that, waiting", (peer) => duration(peer.wait_seconds)],
  ["staleness", (peer) => (peer.staleness === null ? kUnknown : plural(peer.staleness, "update"))],
  ["rounds failed", (peer) => String(peer.rounds_failed)],
  ["sent", (peer) => `${bytes(peer.bytes_sent)}, now ${rate(peer.send_rate)}`],
  ["received", (peer) => `${bytes(peer.bytes_received)}, now ${rate(peer.receive_rate)}`],
];

// What is known of one peer: beside the map, or over it where there is no room.
export class PeerPanel {
  readonly root = html("dialog", { class: "peer-panel", "aria-labelledby": "peer-title", "data-testid": "peer-panel" });
  private readonly title = html("h3", { id: "peer-title" });
  private readonly picture = icon("silent");
  private readonly state = html("span");
  private readonly badge = html("p", { class: "badge" }, this.picture, this.state);
  private readonly why = html("p", { class: "why" });
  private readonly facts = html("dl", { class: "peer-facts" });
  private readonly values: HTMLElement[];
  private readonly memory = new MemoryBars();
  private readonly links = new LinkTable();
  private readonly linksTitle = html("h4", {}, "Links");
  private readonly log = html("pre", { class: "log", tabindex: 0, "aria-label": "Log" });
  private readonly logTitle = html("h4", {}, "Last lines of its log");
  private name: string | null = null;

  // `closed` is told whose panel it was.
  constructor(private readonly closed: (name: string) => void) {
    const close = html("button", { type: "button", class: "quiet close", "aria-label": "Close" }, icon("close"));
    close.addEventListener("click", () => this.close());
    this.values = kFacts.map(([label]) => {
      const value = html("dd");
      this.facts.append(html("dt", {}, label), value);
      return value;
    });
    this.root.append(html("div", { class: "panel-head" }, this.title, close), this.badge, this.why);
    this.root.append(html("h4", {}, "Memory"), this.memory.root, html("h4", {}, "Facts"), this.facts);
    this.root.append(this.linksTitle, html("div", { class: "table-scroll" }, this.links.root), this.logTitle, this.log);
    this.root.addEventListener("close", () => this.ended());
  }

  selected(): string | null {
    return this.name;
  }

  open(name: string): void {
    this.name = name;
    if (this.root.open) return;
    if (matchMedia("(max-width: 800px)").matches) this.root.showModal();
    else this.root.show();
  }

  close(): void {
    if (this.root.open) this.root.close();
  }

  private ended(): void {
    const name = this.name;
    this.name = null;
    if (name !== null) this.closed(name);
  }

  render(model: Model): void {
    const peer = this.name === null ? undefined : model.peers.get(this.name);
    if (!peer) return;
    setText(this.title, peer.name);
    setText(this.state, peer.state);
    setIcon(this.picture, peer.state);
    setAttribute(this.badge, "data-state", peer.state);
    setText(this.why, peer.why);
    setHidden(this.why, peer.why === "");
    this.memory.render(peer.memory);
    kFacts.forEach(([, value], index) => setText(this.values[index], value(peer)));
    const links = this.links.render(peer.name, model.links);
    setHidden(this.linksTitle, links === 0);
    setHidden(this.links.root, links === 0);
    this.renderLog(peer.log);
  }

  // Stays at the newest line, unless somebody has scrolled up to read.
  private renderLog(lines: string[]): void {
    const text = lines.join("\n");
    setHidden(this.logTitle, text === "");
    setHidden(this.log, text === "");
    if (this.log.textContent === text) return;
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 4;
    this.log.textContent = text;
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}
