import type { Link } from "../model/api";
import type { Box, MapLayout } from "./layout";

// The way of a line on the map. Arrows lead from stage to stage, one for each direction; a ring's line is for both.
export interface Route {
  key: string;
  kind: "pipeline" | "ring";
  path: string;
  links: Link[];
}

const kArrowApart = 8; // from the middle of the boxes
const kTip = 4.5;
const kAligned = 20; // how much of two boxes must lie above each other for an upright line
const kAside = 12; // a line that passes behind other boxes stands so far from those that end there

export function routesOf(layout: MapLayout, links: Link[]): Route[] {
  const routes = new Map<string, Route>();
  for (const link of links) {
    const from = layout.boxes.get(link.from);
    const to = layout.boxes.get(link.to);
    if (!from || !to || from === to) continue;
    const isArrow = link.kind !== "ring" && from.cluster === to.cluster;
    const key = isArrow ? `${link.from}\n${link.to}` : [link.from, link.to].sort().join("\n");
    const known = routes.get(key);
    if (known) known.links.push(link);
    else routes.set(key, { key, kind: isArrow ? "pipeline" : "ring", path: pathOf(layout, from, to, isArrow), links: [link] });
  }
  return [...routes.values()];
}

// How much of a line's bandwidth is in use, as one of five classes; null if it was not measured.
export function useClass(links: Link[]): number | null {
  const known = links.filter((link) => link.use !== null).map((link) => link.use!);
  if (known.length === 0) return null;
  const most = Math.max(...known);
  return most < 0.01 ? 0 : Math.min(4, 1 + Math.floor(most * 4));
}

function pathOf(layout: MapLayout, from: Box, to: Box, isArrow: boolean): string {
  if (from.line !== to.line) return acrossLines(from, to);
  if (areNeighbours(layout, from, to)) return isArrow ? arrow(from, to) : between(from, to);
  return below(from, to);
}

function areNeighbours(layout: MapLayout, a: Box, b: Box): boolean {
  const [left, right] = a.x < b.x ? [a, b] : [b, a];
  for (const box of layout.boxes.values()) {
    if (box.line === left.line && box.x > left.x && box.x < right.x) return false;
  }
  return true;
}

function arrow(from: Box, to: Box): string {
  const ahead = to.x > from.x;
  const direction = ahead ? 1 : -1;
  const y = from.y + from.height / 2 - direction * kArrowApart;
  const start = (ahead ? from.x + from.width : from.x) + direction * 3;
  const end = (ahead ? to.x : to.x + to.width) - direction * 4;
  const back = end - direction * kTip;
  return `M${start} ${y}H${end}M${back} ${y - kTip}L${end} ${y}L${back} ${y + kTip}`;
}

function between(a: Box, b: Box): string {
  const [left, right] = a.x < b.x ? [a, b] : [b, a];
  return `M${left.x + left.width} ${left.y + left.height / 2}H${right.x}`;
}

function below(a: Box, b: Box): string {
  const [left, right] = a.x < b.x ? [a, b] : [b, a];
  const y = left.y + left.height;
  const [start, end] = [left.x + left.width / 2, right.x + right.width / 2];
  return `M${start} ${y}C${start} ${y + 26} ${end} ${y + 26} ${end} ${y}`;
}

function acrossLines(a: Box, b: Box): string {
  const [upper, lower] = a.y < b.y ? [a, b] : [b, a];
  const top = upper.y + upper.height;
  const low = Math.max(upper.x, lower.x);
  const high = Math.min(upper.x + upper.width, lower.x + lower.width);
  if (high - low >= kAligned) {
    const aside = Math.min((lower.line - upper.line - 1) * kAside, (high - low) / 2 - 6);
    const x = Math.max((low + high) / 2 + aside, Math.min(lower.clear, high - 6));
    return `M${x} ${top}V${lower.y}`;
  }
  const bend = Math.min(60, (lower.y - top) * 0.6);
  const [start, end] = [upper.x + upper.width / 2, lower.x + lower.width / 2];
  return `M${start} ${top}C${start} ${top + bend} ${end} ${lower.y - bend} ${end} ${lower.y}`;
}
