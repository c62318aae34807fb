import type { SwarmEvent } from "../model/api";
import { changesOf, type Model } from "../model/store";
import { html, setChildren, setHidden, setText } from "../page/dom";
import type { View } from "../page/tabs";
import { plural } from "../page/words";
import { EventFilter } from "./event_filter";
import { eventRow } from "./event_row";

export class EventsView implements View {
  readonly id = "events";
  readonly title = "Events";
  readonly root = html("div", { class: "events-view" });
  private readonly filter = new EventFilter(() => (this.isStale = true));
  private readonly list = html("ol", { class: "event-list", "aria-label": "Events, the newest first" });
  private readonly nothing = html("p", { class: "nothing" });
  private readonly shown = html("span", { class: "shown" });
  private rows = new Map<number, HTMLLIElement>();
  private events: SwarmEvent[] = [];
  private readonly changed = changesOf("events");
  private isStale = true;

  constructor() {
    this.filter.root.append(this.shown);
    this.root.append(this.filter.root, this.nothing, this.list);
  }

  render(model: Model): void {
    if (this.changed(model)) {
      this.makeRows(model.events);
      this.isStale = true;
    }
    if (!this.isStale) return;
    this.isStale = false;
    const wanted = this.events.filter((event) => this.filter.wants(event)).reverse();
    setChildren(this.list, wanted.map((event) => this.rows.get(event.id)!));
    const all = plural(this.events.length, "event");
    setText(this.shown, wanted.length === this.events.length ? all : `${wanted.length} of ${all}`);
    setText(this.nothing, this.events.length === 0 ? "Nothing has happened yet." : "No event is like that.");
    setHidden(this.nothing, wanted.length > 0);
  }

  // Those that are known keep their rows, so that a selection in them stays. After a restart of the server, the same number may be
  // another event.
  private makeRows(events: SwarmEvent[]): void {
    const known = new Map(this.events.map((event) => [event.id, event]));
    const rows = new Map<number, HTMLLIElement>();
    for (const event of events) {
      this.filter.offer(event.event);
      const before = known.get(event.id);
      const isSame = before && before.seconds === event.seconds && before.event === event.event && before.peer === event.peer;
      rows.set(event.id, (isSame && this.rows.get(event.id)) || eventRow(event));
    }
    this.rows = rows;
    this.events = events;
  }
}
