import { expect, it } from "vitest";
import type { Span } from "../model/api";
import { coverage, drawLane, type Colour, type Lane, type Paint } from "./lane";

const kRed: Colour = [200, 0, 0];
const kGreen: Colour = [0, 100, 0];
const kBack: Colour = [0, 0, 40];
const kPaints: Paint[] = [
  { kind: "forward", colour: kRed },
  { kind: "backward", colour: kGreen },
];

function lane(width: number, height: number): Lane {
  return { pixels: new Uint8ClampedArray(width * height * 4), width, height };
}

function pixel({ pixels, width }: Lane, x: number, y: number): number[] {
  return [...pixels.slice((y * width + x) * 4, (y * width + x) * 4 + 3)];
}

it("gives each pixel its share of a span", () => {
  expect([...coverage([["forward", 0.5, 3.25]], "forward", 0, 5, 5)]).toEqual([0.5, 1, 1, 0.25, 0]);
  expect([...coverage([["forward", 1.25, 1.5], ["forward", 1.5, 1.75]], "forward", 0, 3, 3)]).toEqual([0, 0.5, 0]);
});

it("leaves out what is of another kind or another time, and cuts what goes beyond", () => {
  expect([...coverage([["update", 0, 5]], "forward", 0, 2, 2)]).toEqual([0, 0]);
  expect([...coverage([["forward", -2, -1], ["forward", 2, 3]], "forward", 0, 2, 2)]).toEqual([0, 0]);
  expect([...coverage([["forward", -5, 0.5], ["forward", 1.5, 9]], "forward", 0, 2, 2)]).toEqual([0.5, 0.5]);
});

it("draws long spans where they are, and mixes colours where they meet", () => {
  const drawn = lane(4, 2);
  drawLane(drawn, [["forward", 0, 1.5], ["backward", 1.5, 3]], 0, 4, kPaints, kBack);
  for (const y of [0, 1]) {
    expect([0, 1, 2, 3].map((x) => pixel(drawn, x, y))).toEqual([kRed, [100, 50, 0], kGreen, kBack]);
  }
});

it("stacks the shares of short spans", () => {
  const spans: Span[] = [];
  for (let at = 0; at < 40; at += 0.4) spans.push(["forward", at, at + 0.1], ["backward", at + 0.1, at + 0.3]);
  const drawn = lane(40, 4);
  drawLane(drawn, spans, 0, 40, kPaints, kBack);
  expect([0, 1, 2, 3].map((y) => pixel(drawn, 20, y))).toEqual([kBack, kGreen, kGreen, kRed]);
});

it("is all background without spans", () => {
  const drawn = lane(3, 1);
  drawLane(drawn, [], 0, 1, kPaints, kBack);
  expect(pixel(drawn, 1, 0)).toEqual(kBack);
});
