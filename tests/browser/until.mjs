import { setTimeout as sleep } from "node:timers/promises";

const kDeadline = 60_000;

// Asks again and again until the answer is true in any way, and returns it. Fails after a minute, and says what it has waited for.
// `seen` tells what there was instead.
export async function until(what, condition, seen = () => "") {
  const deadline = Date.now() + kDeadline;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    if (Date.now() > deadline) {
      const instead = await seen();
      throw new Error(`waited in vain: ${what}${instead ? `; there was ${JSON.stringify(instead)}` : ""}`);
    }
    await sleep(50);
  }
}
