import type { PeerState } from "../model/api";
import { html, setHidden, svg } from "../page/dom";
import { icon } from "../page/icons";

const kStates: PeerState[] = [
  "training",
  "waiting",
  "restoring",
  "ready",
  "joining",
  "silent",
  "lost",
  "left",
  "refused",
  "expelled",
  "ended",
];

const kUses: [use: string, words: string][] = [
  ["0", "idle"],
  ["1", "below 25%"],
  ["2", "below 50%"],
  ["3", "below 75%"],
  ["4", "above"],
  ["unknown", "not measured"],
];

// What shapes and colours mean; of states, only those that there are.
export class Legend {
  readonly root = html("div", { class: "legend" });
  private readonly states = new Map<string, HTMLElement>();

  constructor() {
    const states = html("ul", { class: "keys", "aria-label": "States of peers" });
    for (const state of kStates) {
      const key = html("li", { "data-state": state }, icon(state), state);
      this.states.set(state, key);
      states.append(key);
    }
    const uses = html("ul", { class: "keys", "aria-label": "Links" });
    uses.append(html("li", {}, sample("0", "M1 6H22M18 2L22 6L18 10"), "pipeline"), html("li", {}, sample("0", "M12 0V12"), "ring"));
    uses.append(html("li", { class: "uses" }, "in use:"));
    for (const [use, words] of kUses) uses.append(html("li", {}, sample(use, "M1 6H23"), words));
    this.root.append(states, uses);
  }

  render(present: Set<string>): void {
    for (const [state, key] of this.states) setHidden(key, !present.has(state));
  }
}

function sample(use: string, path: string): SVGElement {
  const group = svg("g", { "data-use": use }, svg("path", { class: "seen", d: path }));
  return svg("svg", { class: "links sample", width: 24, height: 12, "aria-hidden": "true" }, group);
}
