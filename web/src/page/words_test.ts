import { expect, it } from "vitest";
import type { SwarmEvent } from "../model/api";
import { isImportant, plural, sentenceOf } from "./words";

function event(kind: string, peer = "", text = ""): SwarmEvent {
  return { id: 1, seconds: 0, step: 0, event: kind, peer, text };
}

it("makes sentences", () => {
  expect(sentenceOf(event("lost", "peer-1", "its link was closed"))).toBe("peer-1 was lost: its link was closed");
  expect(sentenceOf(event("planned", "", "generation 2"))).toBe("A plan was made: generation 2");
  expect(sentenceOf(event("round failed", "attic", "3 so far"))).toBe("attic had a round that failed: 3 so far");
  expect(sentenceOf(event("began"))).toBe("Training began");
  expect(sentenceOf(event("began", "peer-2"))).toBe("peer-2 began to train");
});

it("shows kinds that it does not know, also those that objects have by nature", () => {
  expect(sentenceOf(event("danced", "peer-1"))).toBe("peer-1 danced");
  expect(sentenceOf(event("constructor"))).toBe("constructor");
});

it("knows what is important", () => {
  expect(["lost", "expelled", "stuck", "missed"].every(isImportant)).toBe(true);
  expect(isImportant("joined")).toBe(false);
});

it("counts", () => {
  expect([plural(1, "stage"), plural(2, "stage")]).toEqual(["1 stage", "2 stages"]);
});
