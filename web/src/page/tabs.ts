import type { Model } from "../model/store";
import { html } from "./dom";

export interface View {
  readonly id: string;
  readonly title: string;
  readonly root: HTMLElement;
  // Called in every frame while it is visible. `now` is on the coordinator's clock.
  render(model: Model, now: number): void;
}

// One view at a time, chosen by tabs or by the fragment of the address (#swarm, #events).
export class Tabs {
  readonly list = html("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
  readonly panels: HTMLElement[];
  private readonly tabs: HTMLButtonElement[];
  private shown = 0;

  constructor(private readonly views: View[]) {
    this.tabs = views.map((view) => this.tabOf(view));
    this.panels = views.map((view) =>
      html(
        "section",
        { role: "tabpanel", id: `panel-${view.id}`, "aria-labelledby": `tab-${view.id}`, tabindex: 0 },
        html("h2", { class: "visually-hidden" }, view.title),
        view.root,
      ),
    );
    this.list.append(...this.tabs);
    this.list.addEventListener("keydown", (event) => this.move(event));
    addEventListener("hashchange", () => this.followAddress());
    this.show(0);
    this.followAddress();
  }

  visible(): View {
    return this.views[this.shown];
  }

  visiblePanel(): HTMLElement {
    return this.panels[this.shown];
  }

  private tabOf(view: View): HTMLButtonElement {
    const tab = html(
      "button",
      { role: "tab", type: "button", id: `tab-${view.id}`, "aria-controls": `panel-${view.id}`, "data-testid": `tab-${view.id}` },
      view.title,
    );
    tab.addEventListener("click", () => this.choose(this.views.indexOf(view)));
    return tab;
  }

  private choose(index: number): void {
    this.show(index);
    history.replaceState(null, "", `#${this.views[index].id}`);
  }

  private followAddress(): void {
    const index = this.views.findIndex((view) => `#${view.id}` === location.hash);
    if (index >= 0) this.show(index);
  }

  private show(index: number): void {
    this.shown = index;
    this.tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      this.panels[i].hidden = i !== index;
    });
  }

  private move(event: KeyboardEvent): void {
    const last = this.views.length - 1;
    const targets: Record<string, number> = {
      ArrowRight: this.shown === last ? 0 : this.shown + 1,
      ArrowLeft: this.shown === 0 ? last : this.shown - 1,
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.choose(target);
    this.tabs[target].focus();
  }
}
