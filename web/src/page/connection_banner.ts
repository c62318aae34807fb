import type { Status } from "../live/connection";
import { html, setAttribute, setText } from "./dom";
import { duration } from "./format";

// Says when the page is not live, and how old what it shows is. Only the sentence is a live region, or its age would be read out every
// second.
export class ConnectionBanner {
  readonly root = html("div", { class: "connection", "data-testid": "connection" });
  private readonly sentence = html("span", { role: "status" });
  private readonly age = html("span", { class: "age" });

  constructor() {
    this.root.append(this.sentence, this.age);
  }

  // `heard`: how many seconds ago the last message came; null if none has come yet.
  render(status: Status, isOver: boolean, heard: number | null): void {
    const shown = status === "lost" && isOver ? "over" : status;
    setAttribute(this.root, "data-status", shown);
    setAttribute(document.body, "data-connection", heard === null ? "none" : shown);
    setText(this.sentence, sentenceFor(shown, heard !== null));
    const old = heard === null || shown === "live" ? "" : duration(Math.floor(heard));
    setText(this.age, old && (shown === "over" ? `; it ended as you see here, ${old} ago` : `; what you see is ${old} old`));
  }
}

function sentenceFor(shown: Status | "over", wasLive: boolean): string {
  if (shown === "live") return "";
  if (shown === "over") return "the run is over, and its server has gone";
  if (shown === "connecting") return wasLive ? "" : "connecting…";
  return wasLive ? "connection lost, trying again" : "the server does not answer, trying again";
}
