import type { Span, SpanKind } from "../model/api";

// Draws the spans between two moments into a lane of pixels. Where spans are long enough to be seen, each has its place, and a pixel that
// two of them share has a mixture of their colours. Where they are shorter than a pixel or so, that would be one muddy colour for all:
// then heights show what shares of the time they had, from the bottom up, and what is left above is the rest.

export type Colour = [red: number, green: number, blue: number];

export interface Paint {
  kind: SpanKind;
  colour: Colour;
}

export interface Lane {
  pixels: Uint8ClampedArray; // red, green, blue, opacity of each; line by line
  width: number;
  height: number;
}

const kShortest = 1.5; // pixels of a span that is seen, in the mean
const kReach = 4; // pixels on each side that shares are averaged over

export function drawLane(lane: Lane, spans: Span[], from: number, to: number, paints: Paint[], background: Colour): void {
  const shares = paints.map((paint) => coverage(spans, paint.kind, from, to, lane.width));
  const areShort = paints.length > 1 && (meanLength(spans, from, to) * lane.width) / (to - from) < kShortest;
  if (areShort) stack(lane, shares.map(averaged), paints, background);
  else mix(lane, shares, paints, background);
}

// What part of each pixel's time the spans of a kind take.
export function coverage(spans: Span[], kind: SpanKind, from: number, to: number, pixels: number): Float32Array {
  const covered = new Float32Array(pixels);
  const scale = pixels / (to - from);
  for (const [of, begin, end] of spans) {
    if (of !== kind || end <= from || begin >= to) continue;
    const left = Math.max(0, (begin - from) * scale);
    const right = Math.min(pixels, (end - from) * scale);
    const first = Math.floor(left);
    const last = Math.min(pixels - 1, Math.floor(right));
    if (first === last) {
      covered[first] += right - left;
      continue;
    }
    covered[first] += first + 1 - left;
    for (let x = first + 1; x < last; x++) covered[x] += 1;
    covered[last] += right - last;
  }
  return covered;
}

function meanLength(spans: Span[], from: number, to: number): number {
  let sum = 0;
  let number = 0;
  for (const [kind, begin, end] of spans) {
    if (kind === "round" || end <= from || begin >= to) continue;
    sum += end - begin;
    number++;
  }
  return number === 0 ? Infinity : sum / number;
}

function averaged(share: Float32Array): Float32Array {
  const result = new Float32Array(share.length);
  let sum = 0;
  for (let x = 0; x < Math.min(kReach, share.length); x++) sum += share[x];
  for (let x = 0; x < share.length; x++) {
    if (x + kReach < share.length) sum += share[x + kReach];
    if (x - kReach > 0) sum -= share[x - kReach - 1];
    const from = Math.max(0, x - kReach);
    const behind = Math.min(share.length, x + kReach + 1);
    result[x] = sum / (behind - from);
  }
  return result;
}

function mix(lane: Lane, shares: Float32Array[], paints: Paint[], background: Colour): void {
  const { pixels, width } = lane;
  for (let x = 0; x < width; x++) {
    let covered = 0;
    for (const share of shares) covered += share[x];
    const rest = Math.max(0, 1 - covered);
    const whole = Math.max(1, covered); // overlapping spans share the pixel, too
    for (let channel = 0; channel < 3; channel++) {
      let value = background[channel] * rest;
      for (let i = 0; i < paints.length; i++) value += (paints[i].colour[channel] * shares[i][x]) / whole;
      pixels[x * 4 + channel] = value;
    }
    pixels[x * 4 + 3] = 255;
  }
  for (let y = 1; y < lane.height; y++) pixels.copyWithin(y * width * 4, 0, width * 4);
}

function stack(lane: Lane, shares: Float32Array[], paints: Paint[], background: Colour): void {
  const { pixels, width, height } = lane;
  for (let x = 0; x < width; x++) {
    let below = height; // the line that all of this column is drawn below of
    let covered = 0;
    for (let i = 0; i <= paints.length; i++) {
      covered += i < paints.length ? shares[i][x] : 1;
      const top = Math.max(0, Math.round(height * (1 - covered)));
      const [red, green, blue] = i < paints.length ? paints[i].colour : background;
      while (below > top) {
        const at = (--below * width + x) * 4;
        pixels[at] = red;
        pixels[at + 1] = green;
        pixels[at + 2] = blue;
        pixels[at + 3] = 255;
      }
    }
  }
}
