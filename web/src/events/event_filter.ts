import type { SwarmEvent } from "../model/api";
import { html } from "../page/dom";
import { isImportant, sentenceOf } from "../page/words";

// Which events are wanted: by kind, and by what their sentence says.
export class EventFilter {
  readonly root: HTMLElement;
  private readonly kind = html("select", { "data-testid": "event-kind" });
  private readonly text = html("input", { type: "search", autocomplete: "off", "data-testid": "event-text" });
  private readonly kinds = new Set<string>();

  constructor(changed: () => void) {
    this.kind.append(html("option", { value: "" }, "all kinds"), html("option", { value: "!" }, "important ones"));
    this.kind.addEventListener("change", changed);
    this.text.addEventListener("input", changed);
    this.root = html("div", { class: "toolbar" });
    this.root.append(html("label", {}, "kind", this.kind), html("label", {}, "with the text", this.text));
  }

  offer(kind: string): void {
    if (this.kinds.has(kind)) return;
    this.kinds.add(kind);
    this.kind.append(html("option", { value: `=${kind}` }, kind));
  }

  wants(event: SwarmEvent): boolean {
    const kind = this.kind.value;
    if (kind === "!" && !isImportant(event.event)) return false;
    if (kind.startsWith("=") && kind.slice(1) !== event.event) return false;
    const text = this.text.value.trim().toLowerCase();
    return text === "" || sentenceOf(event).toLowerCase().includes(text);
  }
}
