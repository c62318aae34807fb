import { expect, it } from "vitest";
import { sharesOf, toldBetween } from "./shares";

it("sums up what lies between two moments", () => {
  const shares = sharesOf(
    [["forward", -1, 1], ["backward", 1, 4], ["update", 4, 5], ["round", 0, 6], ["wait", 5, 7], ["forward", 9, 12]],
    0,
    10,
  );
  expect(shares.forward).toBeCloseTo(0.2);
  expect(shares.backward).toBeCloseTo(0.3);
  expect(shares.update).toBeCloseTo(0.1);
  expect(shares.round).toBeCloseTo(0.6);
  expect(shares.wait).toBeCloseTo(0.2);
  expect(shares.rest).toBeCloseTo(0.2);
});

it("is all rest without spans", () => {
  expect(sharesOf([], 0, 10).rest).toBe(1);
  expect(sharesOf([["forward", 0, 1]], 5, 5).rest).toBe(1);
});

it("has no share above one, nor below none", () => {
  const shares = sharesOf([["forward", 0, 10], ["backward", 0, 10], ["round", 0, 10], ["round", 0, 10]], 0, 10);
  expect(shares.rest).toBe(0);
  expect(shares.round).toBe(1);
});

it("counts from the first span to the last that was told", () => {
  expect(toldBetween([[["forward", 12, 13]], [["update", 14, 19.5]]], 0, 20)).toEqual([12, 19.5]);
  expect(toldBetween([[["forward", 1, 2]]], 0, 20)).toEqual([1, 20]);
  expect(toldBetween([], 0, 20)).toEqual([20, 20]);
});
