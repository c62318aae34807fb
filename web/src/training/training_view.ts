import "uplot/dist/uPlot.min.css";
import { changesOf, type Model } from "../model/store";
import { html, setHidden } from "../page/dom";
import type { View } from "../page/tabs";
import { Chart } from "./chart";
import type { Across } from "./chart_data";
import { kCharts } from "./chart_specs";

const kChartsPerFrame = 2; // so that no frame takes long

export class TrainingView implements View {
  readonly id = "training";
  readonly title = "Training";
  readonly root = html("div", { class: "training-view" });
  private readonly charts = kCharts.map((spec) => new Chart(spec));
  private readonly nothing = html("p", { class: "nothing" }, "No step is done yet.");
  private readonly changed = changesOf("series", "plan");
  private across: Across = "step";
  private isLog = false;
  private stale: Chart[] = [];

  constructor() {
    const grid = html("div", { class: "charts" }, ...this.charts.map((chart) => chart.root));
    this.root.append(this.choices(), this.nothing, grid);
    new ResizeObserver(() => this.charts.forEach((chart) => chart.fit())).observe(grid);
  }

  render(model: Model): void {
    if (this.stale.length === 0 && this.changed(model)) {
      setHidden(this.nothing, model.series.rows > 0);
      this.stale = [...this.charts];
    }
    for (const chart of this.stale.splice(0, kChartsPerFrame)) chart.draw(model, this.across, this.isLog);
  }

  // For another theme, too.
  redraw(): void {
    for (const chart of this.charts) chart.forget();
    this.stale = [...this.charts];
  }

  private choices(): HTMLElement {
    const across = html("fieldset", { class: "choices" }, html("legend", {}, "across"));
    for (const [value, text] of [["step", "steps"], ["seconds", "time"]] as [Across, string][]) {
      const choice = html("input", { type: "radio", name: "across", value, checked: value === this.across });
      choice.addEventListener("change", () => {
        this.across = value;
        this.redraw();
      });
      across.append(html("label", {}, choice, text));
    }
    const log = html("input", { type: "checkbox" });
    log.addEventListener("change", () => {
      this.isLog = log.checked;
      this.redraw();
    });
    return html("div", { class: "toolbar" }, across, html("label", {}, log, "loss on a logarithmic axis"));
  }
}
