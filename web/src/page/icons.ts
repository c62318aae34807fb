import { svg } from "./dom";

// A shape for each state, so that none is told by its colour alone, and a few for buttons. All in a square of 16.
const kShapes: Record<string, string> = {
  training: "M4 2.2 13.8 8 4 13.8z",
  waiting: "M3.5 1.8h9v2.6L9.6 8l2.9 3.6v2.6h-9v-2.6L6.4 8 3.5 4.4z",
  ready: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM8 4.4a3.6 3.6 0 1 1 0 7.2 3.6 3.6 0 0 1 0-7.2z",
  joining: "M6.6 2h2.8v4.6H14v2.8H9.4V14H6.6V9.4H2V6.6h4.6z",
  restoring: "M8 2a6 6 0 1 0 5.9 7.2h-2.5A3.6 3.6 0 1 1 10.4 5.3L8.6 7.1H14V1.7l-1.9 1.9A6 6 0 0 0 8 2z",
  silent:
    "M3 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6zM13 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6z",
  lost: "M3.8 2 8 6.2 12.2 2 14 3.8 9.8 8 14 12.2 12.2 14 8 9.8 3.8 14 2 12.2 6.2 8 2 3.8z",
  left: "M2 2h7v2.3H4.3v7.4H9V14H2zM9.8 4.4 14.4 8l-4.6 3.6V9.2H6.2V6.8h3.6z",
  refused: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM4 6.8h8v2.4H4z",
  expelled: "M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3zM7 4h2v4.8H7zM7 10h2v2H7z",
  ended: "M1.8 8.6 3.7 6.7l2.8 2.8 5.8-5.9 1.9 1.9-7.7 7.8z",
  moon: "M13.8 10.1A6 6 0 0 1 5.9 2.2a6.2 6.2 0 1 0 7.9 7.9z",
  sun: "M8 4.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8zM7.2.8h1.6v2.4H7.2zM7.2 12.8h1.6v2.4H7.2zM.8 7.2h2.4v1.6H.8zM12.8 7.2h2.4v1.6h-2.4zM2.3 3.4l1.1-1.1 1.7 1.7L4 5.1zM10.9 12l1.1-1.1 1.7 1.7-1.1 1.1zM2.3 12.6l1.7-1.7L5.1 12l-1.7 1.7zM10.9 4l1.7-1.7 1.1 1.1L12 5.1z",
  close: "M3.8 2.7 8 6.9l4.2-4.2 1.1 1.1L9.1 8l4.2 4.2-1.1 1.1L8 9.1l-4.2 4.2-1.1-1.1L6.9 8 2.7 3.8z",
  important: "M8 1.2 15.4 14.4H.6zM7.1 5.8h1.8v4.4H7.1zM7.1 11.2h1.8V13H7.1z",
};

export function icon(name: string): SVGSVGElement {
  const path = svg("path", { "fill-rule": "evenodd" });
  const picture = svg("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, path);
  setIcon(picture, name);
  return picture;
}

export function setIcon(picture: SVGSVGElement, name: string): void {
  const shape = Object.hasOwn(kShapes, name) ? kShapes[name] : kShapes.silent;
  const path = picture.firstElementChild!;
  if (path.getAttribute("d") !== shape) path.setAttribute("d", shape);
}
