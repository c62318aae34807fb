import type { Peer } from "../model/api";
import { html, setAttribute, setStyle, setText } from "../page/dom";
import { bytes, duration, layers } from "../page/format";
import { icon, setIcon } from "../page/icons";
import type { Box, MapLayout } from "./layout";

// A peer on the map: a button with its name, its state and its layers.
export class PeerNode {
  readonly root: HTMLButtonElement;
  private readonly picture = icon("silent");
  private readonly state = html("span", { class: "state" });
  private readonly place = html("span", { class: "place" });

  constructor(name: string, open: (name: string) => void) {
    this.root = html(
      "button",
      { type: "button", class: "peer", "data-testid": `peer-${name}`, "aria-haspopup": "dialog" },
      html("span", { class: "top" }, this.picture, html("span", { class: "name" }, name)),
      html("span", { class: "bottom" }, this.state, this.place),
    );
    this.root.addEventListener("click", () => open(name));
  }

  // `box`: where it is to stand on the map; without one, wherever the document has it.
  render(peer: Peer, isSelected: boolean, box: Box | undefined, layout: MapLayout): void {
    setAttribute(this.root, "data-state", peer.state);
    setAttribute(this.root, "title", peer.why ? `${peer.name}: ${peer.why}` : peer.name);
    setAttribute(this.root, "aria-current", isSelected ? "true" : null);
    setIcon(this.picture, peer.state);
    setText(this.state, peer.stands_in ? `${peer.state}, stands in` : peer.state);
    setText(this.place, box ? placeOf(peer, box, layout) : peer.why || peer.host);
    this.put(box);
  }

  private put(box: Box | undefined): void {
    setStyle(this.root, "left", box ? `${box.x}px` : "");
    setStyle(this.root, "top", box ? `${box.y}px` : "");
    setStyle(this.root, "width", box ? `${box.width}px` : "");
    setStyle(this.root, "height", box ? `${box.height}px` : "");
  }
}

// As much as the box can show; in a compact one, the state stands in the same line.
function placeOf(peer: Peer, box: Box, { isFlat, isCompact }: MapLayout): string {
  const room = box.width - (isCompact ? 60 : 0);
  const held = isFlat ? `cluster ${box.cluster}` : peer.layers ? `layers ${layers(peer.layers)}` : "";
  if (room < 84 && !isFlat && peer.layers) return layers(peer.layers);
  const parts = [held];
  if (room >= 170 && peer.step_seconds !== null) parts.push(duration(peer.step_seconds));
  if (room >= 270 && peer.memory.resident !== null) parts.push(bytes(peer.memory.resident));
  return parts.filter((part) => part !== "").join(" · ") || peer.why;
}
