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

function recentStepSeconds(model: Model): number | null {
  const steps = columnOf(model.series, "step");
  const seconds = columnOf(model.series, "seconds");
  const last = model.series.rows - 1;
  const first = Math.max(0, last - kRowsThatCount);
  if (last <= first) return null;
  const took = (seconds[last] ?? 0) - (seconds[first] ?? 0);
  const done = (steps[last] ?? 0) - (steps[first] ?? 0);
  return took > 0 && done > 0 ? took / done : null;
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
