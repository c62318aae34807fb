import type { Peer } from "./api";
import { columnOf } from "./series";
import type { Model } from "./store";

const kRowsThatCount = 30;

// How long the steps that are left will take, by the last rows of the series, or by the plan if there are none.
export function secondsLeft(model: Model): number | null {
  const run = model.run;
  if (!run || run.phase !== "training" || run.steps <= run.step) return null;
  const each = recentStepSeconds(model) ?? model.plan?.measured_step_seconds ?? model.plan?.predicted_step_seconds;
  return each ? each * (run.steps - run.step) : null;
}

// The median of the last rows: a pause is in one of them.
function recentStepSeconds(model: Model): number | null {
  const steps = columnOf(model.series, "step");
  const seconds = columnOf(model.series, "seconds");
  const each: number[] = [];
  for (let row = Math.max(1, model.series.rows - kRowsThatCount); row < model.series.rows; row++) {
    const took = (seconds[row] ?? 0) - (seconds[row - 1] ?? 0);
    const done = (steps[row] ?? 0) - (steps[row - 1] ?? 0);
    if (took > 0 && done > 0) each.push(took / done);
  }
  each.sort((a, b) => a - b);
  return each.length === 0 ? null : each[Math.floor(each.length / 2)];
}

// By cluster, stage and name; those without a place come last.
export function inOrder(peers: Iterable<Peer>): Peer[] {
  const behind = Number.MAX_SAFE_INTEGER;
  return [...peers].sort(
    (a, b) =>
      (a.cluster ?? behind) - (b.cluster ?? behind) ||
      (a.stage ?? behind) - (b.stage ?? behind) ||
      kNatural.compare(a.name, b.name),
  );
}

const kNatural = new Intl.Collator("en", { numeric: true }); // peer-9 before peer-10
