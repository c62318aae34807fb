import { changesOf, type Model } from "../model/store";
import { html } from "../page/dom";
import type { View } from "../page/tabs";
import { Legend } from "./legend";
import { SwarmMap } from "./map";
import { PeerPanel } from "./peer_panel";

export class SwarmView implements View {
  readonly id = "swarm";
  readonly title = "Swarm";
  readonly root = html("div", { class: "swarm-view" });
  private readonly map = new SwarmMap((name) => this.choose(name));
  private readonly panel = new PeerPanel((name) => this.chosen(name));
  private readonly legend = new Legend();
  private readonly changed = changesOf("peers", "links");
  private width = 0;
  private isStale = true;

  constructor() {
    this.root.append(html("div", { class: "map-side" }, this.map.root, this.legend.root), this.panel.root);
    document.addEventListener("keydown", (event) => {
      const isForPanel = !this.root.closest("[hidden]") && !document.querySelector("dialog.question[open]");
      if (event.key === "Escape" && isForPanel) this.panel.close();
    });
    new ResizeObserver(() => (this.isStale ||= this.map.width() !== this.width)).observe(this.map.root);
  }

  render(model: Model): void {
    if (!this.changed(model) && !this.isStale) return;
    this.isStale = false;
    this.width = this.map.width();
    this.map.render(model, this.panel.selected());
    this.panel.render(model);
    this.legend.render(new Set([...model.peers.values()].map((peer) => peer.state)));
  }

  private choose(name: string): void {
    if (this.panel.selected() === name) {
      this.panel.close();
      return;
    }
    this.panel.open(name);
    this.isStale = true;
  }

  private chosen(name: string): void {
    this.isStale = true;
    this.map.focus(name);
  }
}
