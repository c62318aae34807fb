import type { Row, Series } from "./api";

// Rows of the series, turned into a list for each column: charts want them so.
export interface Table {
  columns: Map<string, (number | null)[]>;
  rows: number;
  stride: number;
  hasTail: boolean; // the last row is the last step alone, until its own row is full
}

// The server sends 2000 rows at most, and a thinner series before there are more. This only holds if it does not.
const kMostRows = 4000;

export function emptyTable(): Table {
  return { columns: new Map(), rows: 0, stride: 1, hasTail: false };
}

export function tableOf(series: Series): Table {
  const columns = new Map(series.columns.map((name): [string, (number | null)[]] => [name, []]));
  const table: Table = { columns, rows: 0, stride: series.stride, hasTail: false };
  addRows(table, series.rows);
  return table;
}

// Rows are by step. One that goes back means that the run was rewound: what was after it is done again.
export function addRows(table: Table, rows: Row[]): void {
  dropTail(table);
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

// The last step, which may be long before its row is full.
export function setTail(table: Table, row: Row): void {
  dropTail(table);
  const step = valueIn(table, row, "step");
  const last = columnOf(table, "step").at(-1) ?? -Infinity;
  if (step === null || step <= last) return;
  addRows(table, [row]);
  table.hasTail = true;
}

function dropTail(table: Table): void {
  if (!table.hasTail) return;
  for (const column of table.columns.values()) column.pop();
  table.rows--;
  table.hasTail = false;
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
