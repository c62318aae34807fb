import type { Link } from "../model/api";
import { html, setChildren, setText } from "../page/dom";
import { duration, percent, useOfLink } from "../page/format";

interface LinkRow {
  root: HTMLTableRowElement;
  other: HTMLElement;
  kind: HTMLElement;
  cells: HTMLTableCellElement[];
}

// The links of one peer.
export class LinkTable {
  readonly root = html("table", { class: "link-table" });
  private readonly body = html("tbody");
  private readonly rows: LinkRow[] = [];

  constructor() {
    const heads = ["link", "rate", "use", "latency"].map((text) => html("th", { scope: "col" }, text));
    this.root.append(html("caption", { class: "visually-hidden" }, "Links"), html("thead", {}, html("tr", {}, ...heads)), this.body);
  }

  // Returns how many there are.
  render(name: string, links: Link[]): number {
    const own = links.filter((link) => link.from === name || link.to === name);
    while (this.rows.length < own.length) this.rows.push(newRow());
    own.forEach((link, index) => {
      const row = this.rows[index];
      setText(row.other, link.from === name ? `to ${link.to}` : `from ${link.from}`);
      setText(row.kind, link.kind === "both" ? "pipeline and ring" : link.kind);
      const texts = [useOfLink(link), percent(link.use), duration(link.latency)];
      texts.forEach((text, column) => setText(row.cells[column], text));
    });
    setChildren(this.body, this.rows.slice(0, own.length).map((row) => row.root));
    return own.length;
  }
}

function newRow(): LinkRow {
  const other = html("div", { class: "other" });
  const kind = html("div", { class: "kind" });
  const cells = [0, 1, 2].map(() => html("td"));
  return { root: html("tr", {}, html("th", { scope: "row" }, other, kind), ...cells), other, kind, cells };
}
