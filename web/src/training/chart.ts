import uPlot from "uplot";
import type { Model } from "../model/store";
import { html, setHidden, setText } from "../page/dom";
import { duration, whole } from "../page/format";
import { colour } from "../page/palette";
import { dataOf, isEmpty, valuesAt, type Across, type ChartData } from "./chart_data";
import type { ChartSpec } from "./chart_specs";
import { ChartTable } from "./chart_table";

const kHeight = 210;
const kFont = "12px system-ui, sans-serif";

// One chart, with its legend, and its last rows as a table. What is drawn is also said in its label.
export class Chart {
  readonly root: HTMLElement;
  private readonly plotted = html("div", { class: "plot", role: "img" });
  private readonly values: HTMLElement[];
  private readonly table: ChartTable;
  private plot: uPlot | null = null;
  private data: ChartData = [[]];
  private across: Across = "step";
  private isLog = false;

  constructor(readonly spec: ChartSpec) {
    const title = html("h3", { id: `chart-title-${spec.id}` }, spec.title);
    const legend = html("ul", { class: "keys" });
    this.values = spec.lines.map((line) => {
      const swatch = html("span", { class: line.isDashed ? "swatch dashed" : "swatch" });
      swatch.style.borderTopColor = `var(--${line.colour})`;
      const value = html("span", { class: "value" });
      legend.append(html("li", {}, swatch, line.label, value));
      return value;
    });
    this.table = new ChartTable(spec);
    this.root = html("section", { class: "chart", "aria-labelledby": title.id, "data-testid": `chart-${spec.id}` });
    this.root.append(html("div", { class: "chart-head" }, title, legend), this.plotted, this.table.root);
  }

  // With other colours, axes or sizes it is made anew.
  forget(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  draw(model: Model, across: Across, isLog: boolean): void {
    const nothing = isEmpty(this.spec, model);
    setHidden(this.root, nothing);
    if (nothing) return;
    this.across = across;
    this.isLog = isLog && this.spec.mayBeLog === true;
    this.data = dataOf(this.spec, model, across, this.isLog);
    if (this.plot) this.plot.setData(this.data as uPlot.AlignedData);
    else this.plot = new uPlot(this.options(), this.data as uPlot.AlignedData, this.plotted);
    this.showValues();
    this.describe();
    this.table.render(this.data, across);
  }

  fit(): void {
    const width = this.plotted.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: kHeight });
  }

  private options(): uPlot.Options {
    return {
      width: Math.max(200, this.plotted.clientWidth),
      height: kHeight,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, sync: { key: "training" }, y: false },
      scales: { x: { time: false }, y: { distr: this.isLog ? 3 : 1 } },
      axes: [this.axisAcross(), this.axisUp()],
      series: [{}, ...this.spec.lines.map((line) => this.lineOptions(line))],
      hooks: { setCursor: [() => this.showValues()] },
    };
  }

  private lineOptions(line: ChartSpec["lines"][number]): uPlot.Series {
    return {
      label: line.label,
      stroke: colour(line.colour),
      width: 1.75,
      spanGaps: true,
      dash: line.isDashed ? [6, 5] : undefined,
      points: line.hasPoints ? { show: true, size: 5, fill: colour(line.colour) } : line.constant ? { show: false } : { size: 4 },
    };
  }

  private axisAcross(): uPlot.Axis {
    return { ...axisColours(), size: 30, space: 64, values: (_, ticks) => ticks.map((tick) => this.textAcross(tick)) };
  }

  private axisUp(): uPlot.Axis {
    const text = (tick: number | null) => (tick === null ? "" : this.spec.tick(tick));
    return { ...axisColours(), size: 66, space: 34, values: (_, ticks) => ticks.map(text) };
  }

  private textAcross(value: number): string {
    return this.across === "step" ? whole(value) : duration(value);
  }

  // Those under the pointer, or else the newest.
  private showValues(): void {
    const row = this.plot?.cursor.idx ?? this.data[0].length - 1;
    valuesAt(this.data, row).forEach((value, line) => setText(this.values[line], this.spec.format(value)));
  }

  private describe(): void {
    const last = this.data[0].length - 1;
    if (last < 0) return;
    const values = valuesAt(this.data, last).map((value, line) => `${this.spec.lines[line].label} ${this.spec.format(value)}`);
    const where = this.across === "step" ? `step ${whole(this.data[0][last])}` : duration(this.data[0][last]);
    this.plotted.setAttribute("aria-label", `${this.spec.title}, at ${where}: ${values.join(", ")}`);
  }
}

function axisColours() {
  const line = colour("grid");
  return { stroke: colour("muted"), font: kFont, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 5 } };
}
