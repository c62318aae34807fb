import type { Span, SpanKind } from "../model/api";
import { duration } from "../page/format";
import { colour } from "../page/palette";
import { drawLane, type Colour, type Paint } from "./lane";

export const kWindow = 30; // seconds
export const kRowHeight = 28;
export const kHeadHeight = 30;

const kLanes: { kinds: SpanKind[]; top: number; height: number }[] = [
  { kinds: ["forward", "backward", "update", "wait"], top: 3, height: 16 },
  { kinds: ["round"], top: 20, height: 4 },
];

export interface Picture {
  context: CanvasRenderingContext2D;
  width: number;
  density: number; // pixels of the screen in one of the page
  rows: (Span[] | undefined)[]; // from top to bottom
  now: number; // at the right edge
  visible: [first: number, behindLast: number]; // rows that are on the screen: others need no drawing
}

export function paint(picture: Picture): void {
  const { context, width, density, rows } = picture;
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, kHeadHeight + rows.length * kRowHeight);
  paintScale(picture);
  for (const lane of kLanes) paintLanes(picture, lane);
}

function paintScale({ context, width, rows }: Picture): void {
  const step = width < 240 ? 15 : width < 400 ? 10 : 5;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let ago = 0; ago <= kWindow; ago += step) {
    const x = Math.round(width * (1 - ago / kWindow));
    context.fillStyle = colour("grid");
    context.fillRect(Math.min(x, width - 1), kHeadHeight - 6, 1, rows.length * kRowHeight + 6);
    context.fillStyle = colour("muted");
    context.textAlign = ago === 0 ? "right" : ago === kWindow ? "left" : "center";
    context.fillText(ago === 0 ? "now" : `−${duration(ago)}`, x, kHeadHeight / 2);
  }
}

function paintLanes({ context, width, density, rows, now, visible }: Picture, lane: (typeof kLanes)[number]): void {
  const image = imageOf(Math.round(width * density), Math.round(lane.height * density));
  const target = { pixels: image.data, width: image.width, height: image.height };
  const paints = lane.kinds.map((kind): Paint => ({ kind, colour: rgb(`span-${kind}`) }));
  const background = rgb("lane");
  for (let row = visible[0]; row < visible[1]; row++) {
    drawLane(target, rows[row] ?? [], now - kWindow, now, paints, background);
    context.putImageData(image, 0, Math.round((kHeadHeight + row * kRowHeight + lane.top) * density));
  }
}

// The same one for as long as sizes stay: a new one for each lane of each frame would be a lot of memory.
const images = new Map<number, ImageData>();

function imageOf(width: number, height: number): ImageData {
  let image = images.get(height);
  if (!image || image.width !== width) {
    image = new ImageData(Math.max(1, width), Math.max(1, height));
    images.set(height, image);
  }
  return image;
}

function rgb(name: string): Colour {
  const [red = 0, green = 0, blue = 0] = (colour(name).match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue];
}
