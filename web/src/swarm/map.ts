import type { Peer } from "../model/api";
import { inOrder } from "../model/progress";
import type { Model } from "../model/store";
import { html, setAttribute, setChildren, setHidden, setStyle, setText } from "../page/dom";
import { plural } from "../page/words";
import { layOut, type MapLayout } from "./layout";
import { LinkLayer } from "./link_layer";
import { PeerNode } from "./peer_node";
import { routesOf } from "./routes";

const kPadding = 3; // of the scrolled area in the style sheet

// The clusters with their links, and below them the peers without a place.
export class SwarmMap {
  readonly root = html("div", { class: "map-area" });
  private readonly scroll = html("div", { class: "map-scroll" });
  private readonly map = html("div", { class: "map", role: "group", "aria-label": "Peers by cluster" });
  private readonly links = new LinkLayer();
  private readonly others = html("section", { class: "others", "aria-labelledby": "others-title", hidden: true });
  private readonly othersTitle = html("h3", { id: "others-title" }, "Without a place");
  private readonly othersList = html("div", { class: "others-list" });
  private readonly nothing = html("p", { class: "nothing" }, "No peer has come yet.");
  private readonly nodes = new Map<string, PeerNode>();
  private readonly labels = new Map<number, HTMLElement>();

  constructor(private readonly open: (name: string) => void) {
    this.scroll.append(this.map);
    this.others.append(this.othersTitle, this.othersList);
    this.root.append(this.nothing, this.scroll, this.others);
  }

  width(): number {
    return this.scroll.clientWidth - 2 * kPadding;
  }

  focus(name: string): void {
    this.nodes.get(name)?.root.focus();
  }

  render(model: Model, selected: string | null): void {
    setHidden(this.nothing, model.peers.size > 0);
    const layout = layOut(model.peers.values(), this.width());
    const focused = document.activeElement;
    const placed: Element[] = [];
    const others: Element[] = [];
    for (const peer of inOrder(model.peers.values())) {
      const node = this.nodeOf(peer);
      const box = layout.boxes.get(peer.name);
      node.render(peer, peer.name === selected, box, layout);
      (box ? placed : others).push(node.root);
    }
    for (const name of this.nodes.keys()) if (!model.peers.has(name)) this.nodes.delete(name);
    this.place(layout, placed, model);
    setHidden(this.others, others.length === 0);
    setChildren(this.othersList, others);
    // Nodes that change their place leave the document for a moment, and lose the focus.
    if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) focused.focus();
  }

  private place(layout: MapLayout, nodes: Element[], model: Model): void {
    setStyle(this.map, "width", `${layout.width}px`);
    setStyle(this.map, "height", `${layout.height}px`);
    this.map.classList.toggle("compact", layout.isCompact);
    const isWide = layout.width > this.width() + 1;
    this.scroll.tabIndex = isWide ? 0 : -1;
    this.links.render(layout, routesOf(layout, model.links));
    setChildren(this.map, [this.links.root, ...this.withLabels(layout, nodes)]);
  }

  // A heading before the first peer of each cluster.
  private withLabels(layout: MapLayout, nodes: Element[]): Element[] {
    const ordered: Element[] = [];
    let next = 0;
    const shown = new Set(layout.labels.map(({ cluster }) => cluster));
    for (const cluster of this.labels.keys()) if (!shown.has(cluster)) this.labels.delete(cluster);
    if (layout.isFlat) return nodes;
    for (const { cluster, stages, x, y, height } of layout.labels) {
      const label = this.labels.get(cluster) ?? html("h3", { class: "cluster" });
      this.labels.set(cluster, label);
      setText(label, `cluster ${cluster}`);
      setAttribute(label, "title", plural(stages, "stage"));
      setStyle(label, "left", `${x}px`);
      setStyle(label, "top", `${y}px`);
      setStyle(label, "height", `${height}px`);
      ordered.push(label, ...nodes.slice(next, next + stages));
      next += stages;
    }
    return ordered;
  }

  private nodeOf(peer: Peer): PeerNode {
    let node = this.nodes.get(peer.name);
    if (!node) {
      node = new PeerNode(peer.name, this.open);
      this.nodes.set(peer.name, node);
    }
    return node;
  }
}
