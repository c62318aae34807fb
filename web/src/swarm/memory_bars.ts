import type { Memory } from "../model/api";
import { html, setHidden, setStyle, setText } from "../page/dom";
import { bytes, kUnknown, percent } from "../page/format";

const kKinds = ["resident", "planned", "limit"] as const;

// What a peer's process takes, what the plan expects, and what it may take: bars of one scale.
export class MemoryBars {
  readonly root = html("div", { class: "memory" });
  private readonly rows = kKinds.map((kind) => {
    const fill = html("div", { class: `fill ${kind}` });
    const bar = html("div", { class: "bar", "aria-hidden": "true" }, fill);
    const text = html("span", { class: "amount" });
    this.root.append(html("div", { class: "memory-row" }, html("span", { class: "label" }, kind), bar, text));
    return { kind, fill, bar, text };
  });

  render(memory: Memory): void {
    const most = Math.max(1, ...kKinds.map((kind) => memory[kind] ?? 0));
    for (const { kind, fill, bar, text } of this.rows) {
      const amount = memory[kind];
      setStyle(fill, "width", `${(((amount ?? 0) / most) * 100).toFixed(1)}%`);
      setHidden(bar, amount === null);
      setText(text, amount === null ? withoutAmount(kind, memory) : bytes(amount) + shareOf(kind, memory));
    }
  }
}

// Who was given no limit may take what is free on its computer. There is no bar for that: it would dwarf the others.
export function withoutAmount(kind: string, memory: Memory): string {
  if (kind !== "limit") return kUnknown;
  return memory.available === null ? "none" : `${bytes(memory.available)} (free on its computer)`;
}

function shareOf(kind: string, memory: Memory): string {
  if (kind !== "resident" || memory.resident === null) return "";
  const whole = memory.limit ?? memory.planned;
  if (!whole) return "";
  return ` (${percent(memory.resident / whole)} of ${memory.limit === null ? "planned" : "limit"})`;
}
