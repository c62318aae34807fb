import { html } from "../page/dom";
import { duration, kUnknown, whole } from "../page/format";
import type { Across, ChartData } from "./chart_data";
import type { ChartSpec } from "./chart_specs";

const kRows = 20;

// The last rows of a chart, for those who would rather read them. Made only while it is open.
export class ChartTable {
  readonly root: HTMLDetailsElement;
  private readonly head = html("thead");
  private readonly body = html("tbody");
  private data: ChartData = [[]];
  private across: Across = "step";

  constructor(private readonly spec: ChartSpec) {
    const caption = html("caption", { class: "visually-hidden" }, `${spec.title}: the last ${kRows} rows, the newest first`);
    const table = html("table", {}, caption, this.head, this.body);
    this.root = html("details", {}, html("summary", {}, "show as table"), html("div", { class: "table-scroll" }, table));
    this.root.addEventListener("toggle", () => this.fill());
  }

  render(data: ChartData, across: Across): void {
    this.data = data;
    this.across = across;
    this.fill();
  }

  private fill(): void {
    if (!this.root.open) return;
    const [x, ...lines] = this.data;
    const heads = [this.across, ...this.spec.lines.map((line) => line.label)].map((text) => html("th", { scope: "col" }, text));
    this.head.replaceChildren(html("tr", {}, ...heads));
    const rows: HTMLElement[] = [];
    for (let row = x.length - 1; row >= Math.max(0, x.length - kRows); row--) {
      const where = this.across === "step" ? whole(x[row]) : duration(x[row]);
      const cells = lines.map((line) => html("td", {}, line[row] === null ? kUnknown : this.spec.format(line[row])));
      rows.push(html("tr", {}, html("th", { scope: "row" }, where), ...cells));
    }
    this.body.replaceChildren(...rows);
  }
}
