import type { Row, Series } from "./api";

// Rows of the series, turned into a list for each column: charts want them so.
export interface Table {
  columns: Map<string, (number | null)[]>;
  rows: number;
  stride: number;
}

// The server sends 2000 rows at most, and a thinner series before there are more. This only holds if it does not.
const kMostRows = 4000;

export function emptyTable(): Table {
  return { columns: new Map(), rows: 0, stride: 1 };
}

export function tableOf(series: Series): Table {
  const table: Table = { columns: new Map(series.columns.map((name) => [name, []])), rows: 0, stride: series.stride };
  addRows(table, series.rows);
  return table;
}

// Rows are by step. One that goes back means that the run was rewound: what was after it is done again.
export function addRows(table: Table, rows: Row[]): void {
  for (const row of rows) {
    const step = valueIn(table, row, "step");
    if (step === null) continue;
    cutFrom(table, step);
    let index = 0;
    for (const column of table.columns.values()) column.push(row[index++] ?? null);
    table.rows++;
  }
  const surplus = table.rows - kMostRows;
  if (surplus <= 0) return;
  for (const column of table.columns.values()) column.splice(0, surplus);
  table.rows = kMostRows;
}

export function columnOf(table: Table, name: string): (number | null)[] {
  return table.columns.get(name) ?? [];
}

export function hasValues(table: Table, name: string): boolean {
  return columnOf(table, name).some((value) => value !== null);
}

export function latest(table: Table, name: string): number | null {
  const column = columnOf(table, name);
  for (let i = column.length - 1; i >= 0; i--) {
    if (column[i] !== null) return column[i];
  }
  return null;
}

function valueIn(table: Table, row: Row, name: string): number | null {
  const index = [...table.columns.keys()].indexOf(name);
  return index < 0 ? null : (row[index] ?? null);
}

function cutFrom(table: Table, step: number): void {
  const steps = columnOf(table, "step");
  let kept = table.rows;
  while (kept > 0 && (steps[kept - 1] ?? 0) >= step) kept--;
  if (kept === table.rows) return;
  for (const column of table.columns.values()) column.length = kept;
  table.rows = kept;
}
