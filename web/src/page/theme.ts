import { html, setAttribute } from "./dom";
import { icon } from "./icons";

// Light or dark as the computer has it, until the button is used. Kept for the next visit where that is allowed.

const kKey = "rookery-theme";

type Theme = "light" | "dark";

function kept(): Theme | null {
  try {
    const value = localStorage.getItem(kKey);
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null;
  }
}

function keep(theme: Theme): void {
  try {
    localStorage.setItem(kKey, theme);
  } catch {
    // private windows forbid it; then it holds for this visit
  }
}

export function themeButton(changed: () => void): HTMLButtonElement {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = kept();
  const button = html("button", { class: "quiet theme", type: "button" });

  const show = () => {
    const theme = chosen ?? (dark.matches ? "dark" : "light");
    setAttribute(document.documentElement, "data-theme", chosen);
    const other = theme === "dark" ? "light" : "dark";
    button.replaceChildren(icon(theme === "dark" ? "sun" : "moon"));
    button.title = `Use the ${other} theme`;
    button.setAttribute("aria-label", button.title);
    button.onclick = () => {
      chosen = other;
      keep(other);
      show();
      changed();
    };
  };
  dark.addEventListener("change", () => {
    show();
    changed();
  });
  show();
  return button;
}
