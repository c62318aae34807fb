import { expect, it } from "vitest";
import { withoutAmount } from "./memory_bars";

it("says what there is where there is no limit", () => {
  const memory = { resident: 1, planned: null, limit: null, available: 2 ** 31 };
  expect(withoutAmount("limit", memory)).toBe("2.00 GiB (free on its computer)");
  expect(withoutAmount("limit", { ...memory, available: null })).toBe("none");
  expect(withoutAmount("planned", memory)).toBe("–");
});
