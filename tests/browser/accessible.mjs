import axe from "axe-core";
import { kDesktop, kPhone } from "./page.mjs";

// Serious and critical violations that axe finds in what is shown now, as sentences. It is given to the page by the browser itself, so
// that the page's policy stays as it is.
export async function violations({ page }) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  const found = await page.evaluate(() => window.axe.run(document, { preload: false, resultTypes: ["violations"] }));
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}

// Wide and narrow, light and dark: each of them is shown, then `look` is called with its name.
export async function inEveryShape({ page }, look) {
  for (const [size, viewport] of [["desktop", kDesktop], ["phone", kPhone]]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      await look(`${size}-${colorScheme}`);
    }
  }
  await page.setViewportSize(kDesktop);
  await page.emulateMedia({ colorScheme: "light" });
}
