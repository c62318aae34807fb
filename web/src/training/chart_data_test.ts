import { expect, it } from "vitest";
import { tableOf } from "../model/series";
import { emptyModel } from "../model/store";
import { dataOf, isEmpty, valuesAt } from "./chart_data";
import { kCharts } from "./chart_specs";

const kLoss = kCharts.find((spec) => spec.id === "loss")!;
const kStepTime = kCharts.find((spec) => spec.id === "step-time")!;

function modelWith(columns: string[], rows: (number | null)[][]) {
  const model = emptyModel();
  model.series = tableOf({ columns, stride: 1, rows });
  return model;
}

it("has a list for x and one for each line", () => {
  const model = modelWith(["step", "loss", "eval_loss"], [[1, 3, null], [2, 2, 2.5]]);
  expect(dataOf(kLoss, model, "step", false)).toEqual([[1, 2], [3, 2], [null, 2.5]]);
});

it("leaves out rows where time is unknown or goes back", () => {
  const model = modelWith(["step", "seconds", "loss"], [[1, 5, 3], [2, null, 2], [3, 4, 1], [4, 6, 0.5]]);
  expect(dataOf(kLoss, model, "seconds", false).slice(0, 2)).toEqual([[5, 6], [3, 0.5]]);
});

it("has nothing at or below zero on a logarithmic axis", () => {
  const model = modelWith(["step", "loss"], [[1, 0], [2, -1], [3, 2]]);
  expect(dataOf(kLoss, model, "step", true)[1]).toEqual([null, null, 2]);
});

it("draws the predicted step time through all of the chart", () => {
  const model = modelWith(["step", "step_seconds"], [[1, 0.2], [2, 0.3]]);
  model.plan = { generation: 1, clusters: 1, predicted_step_seconds: 0.25, measured_step_seconds: null };
  expect(dataOf(kStepTime, model, "step", false)[2]).toEqual([0.25, 0.25]);
});

it("leaves out charts without values", () => {
  const model = modelWith(["step", "loss", "eval_accuracy"], [[1, 3, null]]);
  expect(isEmpty(kLoss, model)).toBe(false);
  expect(isEmpty(kCharts.find((spec) => spec.id === "accuracy")!, model)).toBe(true);
});

it("finds the last value up to a row", () => {
  expect(valuesAt([[1, 2, 3], [5, null, null], [null, null, 7]], 1)).toEqual([5, null]);
});
