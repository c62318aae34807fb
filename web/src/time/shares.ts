import type { Span, SpanKind } from "../model/api";

export type Shares = Record<SpanKind | "rest", number>;

// What part of the time between two moments a peer spent on what. Rounds may go on beside the others; the rest is neither forward nor
// backward nor update, nor does it wait: it evaluates, or saves a checkpoint.
export function sharesOf(spans: Span[], from: number, to: number): Shares {
  const shares: Shares = { forward: 0, backward: 0, update: 0, wait: 0, round: 0, rest: 1 };
  const whole = to - from;
  if (whole <= 0) return shares;
  for (const [kind, begin, end] of spans) {
    const seconds = Math.min(end, to) - Math.max(begin, from);
    if (seconds > 0 && kind in shares) shares[kind] += seconds / whole;
  }
  shares.round = Math.min(1, shares.round); // several may overlap
  shares.rest = Math.max(0, 1 - shares.forward - shares.backward - shares.update - shares.wait);
  return shares;
}

// The time that all have told of: it begins with the first span, and ends with the last, for what came after has not arrived yet. When
// nothing has come for a while, they do wait.
export function toldBetween(spans: Iterable<Span[]>, from: number, now: number): [from: number, to: number] {
  let first = now;
  let last = from;
  for (const some of spans) {
    for (const [, begin, end] of some) {
      if (end < from) continue;
      if (begin < first) first = begin;
      if (end > last) last = end;
    }
  }
  return [Math.max(from, first), now - last > kDelay ? now : last];
}

const kDelay = 3;
