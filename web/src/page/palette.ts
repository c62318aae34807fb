import { html } from "./dom";

// What a colour of the style sheet is in the theme of the moment, for canvases. An element has to be asked, because the variables hold
// both themes.
const probe = html("span", { hidden: true });
let known = new Map<string, string>();

export function colour(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    known.set(name, value);
  }
  return value;
}

export function forgetColours(): void {
  known = new Map();
}
