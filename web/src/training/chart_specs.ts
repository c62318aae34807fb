import type { Model } from "../model/store";
import { count, decimal, duration, percent } from "../page/format";

export interface LineSpec {
  label: string;
  colour: string; // of the style sheet
  column?: string; // of the series
  constant?: (model: Model) => number | null; // or one value for all of it
  hasPoints?: boolean; // few values, far apart
  isDashed?: boolean;
}

export interface ChartSpec {
  id: string;
  title: string;
  lines: LineSpec[];
  format: (value: number | null) => string;
  tick: (value: number) => string; // the same for the axis: short
  mayBeLog?: boolean;
}

// Those whose columns have no values at all are left out.
export const kCharts: ChartSpec[] = [
  {
    id: "loss",
    title: "Loss",
    lines: [
      { label: "loss", column: "loss", colour: "chart-1" },
      { label: "eval loss", column: "eval_loss", colour: "chart-2", hasPoints: true },
    ],
    format: decimal,
    tick: short,
    mayBeLog: true,
  },
  {
    id: "accuracy",
    title: "Accuracy",
    lines: [{ label: "eval accuracy", column: "eval_accuracy", colour: "chart-2", hasPoints: true }],
    format: percent,
    tick: percent,
  },
  {
    id: "tokens",
    title: "Tokens per second",
    lines: [{ label: "tokens/s", column: "tokens_per_second", colour: "chart-3" }],
    format: count,
    tick: count,
  },
  {
    id: "step-time",
    title: "Step time",
    lines: [
      { label: "measured", column: "step_seconds", colour: "chart-1" },
      { label: "predicted", constant: (model) => model.plan?.predicted_step_seconds ?? null, colour: "chart-4", isDashed: true },
    ],
    format: duration,
    tick: duration,
  },
  {
    id: "distance",
    title: "Distance of the copies",
    lines: [
      { label: "consensus distance", column: "consensus_distance", colour: "chart-1", hasPoints: true },
      { label: "drift", column: "drift", colour: "chart-2", hasPoints: true },
    ],
    format: decimal,
    tick: short,
  },
  {
    id: "wait",
    title: "Share of time spent waiting",
    lines: [{ label: "waiting", column: "wait_share", colour: "chart-4" }],
    format: percent,
    tick: percent,
  },
  {
    id: "lr",
    title: "Learning rate",
    lines: [{ label: "learning rate", column: "lr", colour: "chart-3" }],
    format: decimal,
    tick: short,
  },
  {
    id: "gradients",
    title: "Norm of the gradients",
    lines: [{ label: "norm", column: "grad_norm", colour: "chart-3" }],
    format: decimal,
    tick: short,
  },
];

function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
