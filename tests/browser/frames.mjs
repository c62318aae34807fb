// How smooth the page is: node frames.mjs URL SECONDS gives frames a second, and the longest, of each view.
import { openBrowser, WatchedPage } from "./page.mjs";

const [url, seconds] = process.argv.slice(2);
const browser = await openBrowser();
const watched = await WatchedPage.open(browser, url);
const results = [];
for (const view of ["swarm", "training", "time", "events"]) {
  await watched.byId(`tab-${view}`).click();
  results.push({
    view,
    ...(await watched.page.evaluate(async (time) => {
      const start = performance.now();
      let frames = 0;
      let longest = 0;
      for (let last = start; last - start < time; frames++) {
        const now = await new Promise(requestAnimationFrame);
        longest = Math.max(longest, now - last);
        last = now;
      }
      return { rate: (1000 * frames) / (performance.now() - start), longest };
    }, 1000 * Number(seconds))),
  });
}
await browser.close();
console.log(JSON.stringify(results));
