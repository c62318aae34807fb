import { columnOf, hasValues } from "../model/series";
import type { Model } from "../model/store";
import type { ChartSpec } from "./chart_specs";

export type Across = "step" | "seconds";
export type ChartData = [x: number[], ...lines: (number | null)[][]];

export function isEmpty(spec: ChartSpec, model: Model): boolean {
  return !spec.lines.some((line) => line.column && hasValues(model.series, line.column));
}

// Charts need x to grow from row to row: rows where it does not (a run that was taken up may have a younger clock) are left out. On a
// logarithmic axis there is nothing at and below zero.
export function dataOf(spec: ChartSpec, model: Model, across: Across, isLog: boolean): ChartData {
  const source = columnOf(model.series, across);
  const rows: number[] = [];
  const x: number[] = [];
  source.forEach((value, row) => {
    if (value === null || value <= (x.at(-1) ?? -Infinity)) return;
    x.push(value);
    rows.push(row);
  });
  const lines = spec.lines.map((line) => {
    const column = line.column ? columnOf(model.series, line.column) : [];
    const constant = line.constant?.(model) ?? null;
    return rows.map((row) => {
      const value = line.column ? column[row] : constant;
      return isLog && value !== null && value <= 0 ? null : value;
    });
  });
  return [x, ...lines];
}

// For each line, the value at a row, or the last one there is up to it.
export function valuesAt(data: ChartData, row: number): (number | null)[] {
  return data.slice(1).map((line) => {
    for (let i = row; i >= 0; i--) {
      if (line[i] !== null) return line[i];
    }
    return null;
  });
}
