import { html } from "./dom";
import { icon } from "./icons";

// Sentences that come and go: what could not be done, and what will be.
export class Notices {
  readonly root = html("div", { class: "notices" });
  private readonly errors = html("div", { role: "alert" });
  private readonly news = html("div", { role: "status" });
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.root.append(this.errors, this.news);
  }

  error(text: string): void {
    this.put(this.errors, "notice error", text);
  }

  tell(text: string): void {
    this.put(this.news, "notice", text);
    this.timer = setTimeout(() => this.clear(), 6000);
  }

  private put(where: HTMLElement, kind: string, text: string): void {
    this.clear();
    const close = html("button", { type: "button", class: "quiet", "aria-label": "Dismiss" }, icon("close"));
    close.addEventListener("click", () => this.clear());
    where.append(html("p", { class: kind, "data-testid": "notice" }, html("span", {}, text), close));
  }

  private clear(): void {
    clearTimeout(this.timer);
    this.errors.replaceChildren();
    this.news.replaceChildren();
  }
}
