import { expect, it } from "vitest";
import { bytes, count, decimal, duration, kUnknown, layers, percent, rate, useOfLink } from "./format";

it.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.00 KiB"],
  [25 * 2 ** 20, "25.0 MiB"],
  [1023.9 * 2 ** 20, "1.00 GiB"],
  [166.4 * 2 ** 20, "166 MiB"],
  [3 * 2 ** 40, "3.00 TiB"],
])("bytes of %d", (value, text) => expect(bytes(value)).toBe(text));

it.each([
  [0, "0"],
  [950, "950"],
  [999.7, "1.00 k"],
  [16_400, "16.4 k"],
  [842_500, "843 k"],
  [8_050_000, "8.05 M"],
])("count of %d", (value, text) => expect(count(value)).toBe(text));

it.each([
  [0, "0 s"],
  [0.00025, "250 us"],
  [0.194, "194 ms"],
  [0.9999, "1.0 s"],
  [1.5, "1.5 s"],
  [6, "6 s"],
  [59.97, "1 min 00 s"],
  [125, "2 min 05 s"],
  [3599.6, "1 h 00 min"],
  [3720, "1 h 02 min"],
  [200_000, "2 d 8 h"],
  [-2, "-2 s"],
])("duration of %d", (value, text) => expect(duration(value)).toBe(text));

it.each([
  [0, "0"],
  [0.10624, "0.1062"],
  [3.2, "3.2000"],
  [1234.56, "1234.6"],
  [2e-5, "2.00e-5"],
])("decimal of %d", (value, text) => expect(decimal(value)).toBe(text));

it("knows what is unknown", () => {
  for (const text of [bytes(null), rate(null), count(undefined), duration(NaN), percent(null), decimal(Infinity)]) expect(text).toBe(kUnknown);
});

it("writes shares, layers and links", () => {
  expect(percent(0.28)).toBe("28%");
  expect(percent(0.034)).toBe("3.4%");
  expect(percent(0)).toBe("0%");
  expect(layers([0, 3])).toBe("0–2");
  expect(layers([4, 5])).toBe("4");
  expect(layers(null)).toBe(kUnknown);
  expect(useOfLink({ rate: 12.3 * 2 ** 20, bandwidth: 25 * 2 ** 20 })).toBe("12.3 MiB/s of 25.0 MiB/s");
  expect(useOfLink({ rate: 1024, bandwidth: null })).toBe("1.00 KiB/s");
});
