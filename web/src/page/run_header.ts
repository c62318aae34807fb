import { secondsLeft } from "../model/progress";
import { latest } from "../model/series";
import { changesOf, type Model } from "../model/store";
import { html, setAttribute, setHidden, setText } from "./dom";
import { count, decimal, duration, kUnknown } from "./format";
import { phaseWords } from "./words";

const kNotCounted = new Set(["left", "refused", "expelled"]);

// What the run is, and how far it has come.
export class RunHeader {
  readonly title = html("div", { class: "run-title" });
  readonly facts = html("dl", { class: "facts" });
  private readonly name = html("h1", {}, "Rookery");
  private readonly phase = html("span", { class: "phase", "data-testid": "phase" });
  private readonly subtitle = html("p", { class: "subtitle" });
  private readonly why = html("p", { class: "why", hidden: true });
  private readonly progress = html("progress", { "aria-label": "Steps done", max: 1, value: 0 });
  private readonly step = this.fact("step", "step");
  private readonly loss = this.fact("loss", "loss");
  private readonly speed = this.fact("tokens/s", "tokens");
  private readonly left = this.fact("time left", "eta");
  private readonly generation = this.fact("generation", "generation");
  private readonly peers = this.fact("peers training", "peers");
  private readonly changed = changesOf("run", "plan", "peers", "series");

  constructor() {
    this.title.append(html("div", { class: "name" }, this.name, this.phase), this.subtitle, this.why);
    this.step.parentElement!.append(html("dd", {}, this.progress));
    this.step.parentElement!.classList.add("wide");
  }

  render(model: Model): void {
    if (!this.changed(model) || !model.run) return;
    this.renderRun(model);
    const run = model.run;
    const done = run.steps > 0 ? run.step / run.steps : 0;
    setText(this.step, `${run.step} of ${run.steps}`);
    setAttribute(this.progress, "value", done.toFixed(4));
    setText(this.loss, decimal(latest(model.series, "loss")));
    setText(this.speed, count(run.phase === "training" ? latest(model.series, "tokens_per_second") : null));
    setText(this.left, duration(wholeSeconds(secondsLeft(model))));
    setText(this.generation, model.plan ? String(model.plan.generation) : kUnknown);
    setText(this.peers, peersOf(model));
  }

  private renderRun(model: Model): void {
    const run = model.run!;
    setText(this.name, run.name || "Rookery");
    document.title = `${run.name || "run"}: ${phaseWords(run.phase)} · Rookery`;
    setText(this.phase, phaseWords(run.phase));
    setAttribute(this.phase, "data-phase", run.phase);
    const parts = [run.model, `${count(run.parameters)} parameters`, run.data, run.method, run.schedule];
    setText(this.subtitle, [...new Set(parts)].filter((part) => part !== "").join(" · "));
    setText(this.why, run.why);
    setHidden(this.why, run.why === "");
  }

  private fact(label: string, id: string): HTMLElement {
    const value = html("dd", { "data-testid": id }, kUnknown);
    this.facts.append(html("div", { class: "fact" }, html("dt", {}, label), value));
    return value;
  }
}

function peersOf(model: Model): string {
  let training = 0;
  let all = 0;
  for (const peer of model.peers.values()) {
    if (peer.state === "training") training++;
    const isReplaced = peer.state === "lost" && peer.cluster === null;
    if (!kNotCounted.has(peer.state) && !isReplaced) all++;
  }
  return `${training} of ${all}`;
}

// A tenth of a second says nothing about what is hours away.
function wholeSeconds(seconds: number | null): number | null {
  return seconds === null ? null : Math.max(1, Math.round(seconds));
}
