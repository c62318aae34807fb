import type { SwarmEvent } from "../model/api";
import { html } from "../page/dom";
import { duration } from "../page/format";
import { icon } from "../page/icons";
import { isImportant, predicateOf } from "../page/words";

export function eventRow(event: SwarmEvent): HTMLLIElement {
  const important = isImportant(event.event);
  const what = html("span", { class: "what" });
  if (important) what.append(icon("important"), html("span", { class: "visually-hidden" }, "Important: "));
  if (event.peer) what.append(html("b", {}, event.peer), " ");
  what.append(event.text ? `${predicateOf(event)}: ` : predicateOf(event));
  if (event.text) what.append(html("span", { class: "text" }, event.text));
  return html(
    "li",
    { "data-testid": "event-row", "data-kind": event.event, class: important ? "important" : "" },
    html("span", { class: "when" }, duration(event.seconds)),
    html("span", { class: "step" }, `step ${event.step}`),
    what,
  );
}
