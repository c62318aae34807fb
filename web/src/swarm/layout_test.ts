import { describe, expect, it } from "vitest";
import type { Link, Peer } from "../model/api";
import { layOut, type Box, type MapLayout } from "./layout";
import { routesOf, useClass } from "./routes";

function peer(name: string, cluster: number | null, stage: number | null, layers: [number, number] | null): Peer {
  return { name, cluster, stage, layers } as Peer;
}

function link(from: string, to: string, kind: Link["kind"], use: number | null = 0.5): Link {
  return { from, to, kind, rate: 1, bandwidth: 2, latency: null, use };
}

const kTwoClusters = [
  peer("a", 0, 0, [0, 3]),
  peer("b", 0, 1, [3, 6]),
  peer("c", 1, 0, [0, 2]),
  peer("d", 1, 1, [2, 4]),
  peer("e", 1, 2, [4, 6]),
  peer("spare", null, null, null),
];

function grid(clusters: number, stages: number): Peer[] {
  return Array.from({ length: clusters * stages }, (_, index) => {
    const stage = index % stages;
    return peer(`peer-${index}`, Math.floor(index / stages), stage, [stage, stage + 1]);
  });
}

function overlapping(layout: MapLayout): [Box, Box][] {
  const boxes = [...layout.boxes.values()];
  const meet = (a: Box, b: Box) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  return boxes.flatMap((a, index) => boxes.slice(index + 1).filter((b) => meet(a, b)).map((b): [Box, Box] => [a, b]));
}

describe("the map", () => {
  it("has a row for each cluster, as wide as there is room", () => {
    const layout = layOut(kTwoClusters, 1200);
    expect([...layout.boxes.keys()]).toEqual(["a", "b", "c", "d", "e"]);
    expect(layout.labels.map((label) => label.stages)).toEqual([2, 3]);
    expect(layout.isCompact).toBe(false);
    for (const last of ["b", "e"]) {
      const box = layout.boxes.get(last)!;
      expect(box.x + box.width).toBeCloseTo(1200);
    }
  });

  it("gives more layers more room", () => {
    const layout = layOut([peer("a", 0, 0, [0, 1]), peer("b", 0, 1, [1, 10])], 800);
    expect(layout.boxes.get("b")!.width).toBeGreaterThan(2 * layout.boxes.get("a")!.width);
  });

  it.each([
    [1200, 16, 4],
    [1200, 64, 1],
    [360, 16, 4],
    [360, 5, 1],
    [360, 2, 8],
    [1200, 1, 20],
    [1200, 6, 1],
  ])("on %d pixels keeps %d clusters of %d apart", (width, clusters, stages) => {
    const layout = layOut(grid(clusters, stages), width);
    expect(layout.boxes.size).toBe(clusters * stages);
    expect(overlapping(layout)).toEqual([]);
    for (const box of layout.boxes.values()) {
      expect(box.width).toBeGreaterThanOrEqual(94);
      expect(box.x + box.width).toBeLessThanOrEqual(layout.width + 0.01);
      expect(box.y + box.height).toBeLessThanOrEqual(layout.height);
    }
  });

  it("puts clusters below each other, until they are too many", () => {
    const lines = (layout: MapLayout) => new Set(layout.labels.map((label) => label.y)).size;
    expect(lines(layOut(grid(16, 4), 1200))).toBe(16);
    const many = layOut(grid(40, 2), 1200);
    expect(lines(many)).toBe(14);
    expect(many.width).toBeLessThanOrEqual(1200.01);
  });

  it("puts clusters of one peer side by side, without labels", () => {
    const layout = layOut(grid(4, 1), 1200);
    expect(layout.isFlat).toBe(true);
    expect(layout.labels).toEqual([]);
    expect(new Set([...layout.boxes.values()].map((box) => box.y))).toEqual(new Set([0]));
  });

  it("has labels beside the boxes, or above them on narrow screens", () => {
    expect(layOut(kTwoClusters, 1200).boxes.get("a")).toMatchObject({ x: 84, y: 0 });
    expect(layOut(kTwoClusters, 360).boxes.get("a")).toMatchObject({ x: 0, y: 24 });
  });

  it("shows two peers of one place beside each other", () => {
    const layout = layOut([peer("lost", 0, 0, [0, 3]), peer("new", 0, 0, [0, 3])], 800);
    expect(overlapping(layout)).toEqual([]);
  });

  it("is empty without peers", () => {
    expect(layOut([], 800).height).toBe(0);
  });
});

describe("routes", () => {
  const layout = layOut(kTwoClusters, 1200);

  it("have an arrow for each direction between stages", () => {
    const routes = routesOf(layout, [link("a", "b", "pipeline"), link("b", "a", "both")]);
    expect(routes.map((route) => route.kind)).toEqual(["pipeline", "pipeline"]);
    expect(routes[0].path).not.toBe(routes[1].path);
  });

  it("have one upright line between peers with the same layers", () => {
    const routes = routesOf(layout, [link("a", "c", "ring"), link("c", "a", "ring")]);
    expect(routes).toHaveLength(1);
    expect(routes[0].links).toHaveLength(2);
    expect(routes[0].path).toMatch(/^M[\d.]+ [\d.]+V[\d.]+$/);
  });

  it("leave out whom the map does not have", () => {
    expect(routesOf(layout, [link("a", "spare", "ring"), link("a", "nobody", "ring"), link("a", "a", "ring")])).toEqual([]);
  });

  it("bend where boxes do not lie above each other, or others lie between", () => {
    expect(routesOf(layout, [link("a", "e", "ring")])[0].path).toContain("C");
    expect(routesOf(layout, [link("c", "e", "pipeline")])[0].path).toContain("C");
  });

  it("are coloured by the busiest of their links", () => {
    expect(useClass([link("a", "b", "ring", null)])).toBeNull();
    expect(useClass([link("a", "b", "ring", 0), link("b", "a", "ring", null)])).toBe(0);
    expect(useClass([link("a", "b", "ring", 0.1), link("b", "a", "ring", 0.6)])).toBe(3);
    expect(useClass([link("a", "b", "ring", 1.3)])).toBe(4);
  });
});
