import type { Peer } from "../model/api";
import { html, setAttribute, setChildren, setText } from "../page/dom";
import { percent } from "../page/format";
import type { Shares } from "./shares";

const kColumns: [kind: keyof Shares, words: string][] = [
  ["wait", "waiting"],
  ["forward", "forward"],
  ["backward", "backward"],
  ["update", "update"],
  ["round", "rounds"],
  ["rest", "the rest"],
];

interface Row {
  root: HTMLTableRowElement;
  name: HTMLElement;
  place: HTMLElement;
  shares: HTMLTableCellElement[];
}

// A row for each peer, with a column that is left free for the timeline, and the shares of its time in numbers.
export class TimeTable {
  readonly root = html("table", { class: "time-table" });
  readonly lane = html("th", { scope: "col", class: "lane" }, html("span", { class: "visually-hidden" }, "the last 30 seconds"));
  private readonly body = html("tbody");
  private readonly rows: Row[] = [];

  constructor() {
    const heads = kColumns.map(([kind, words]) => html("th", { scope: "col", class: `share ${kind}` }, words));
    const caption = html("caption", { class: "visually-hidden" }, "What each peer did in the last 30 seconds, in shares of the time");
    this.root.append(caption, html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "peer"), this.lane, ...heads)), this.body);
  }

  render(peers: Peer[]): void {
    while (this.rows.length < peers.length) this.rows.push(newRow());
    peers.forEach((peer, index) => {
      const row = this.rows[index];
      setText(row.name, peer.name);
      setText(row.place, peer.cluster === null ? peer.state : `cluster ${peer.cluster}, stage ${peer.stage ?? 0}`);
      setAttribute(row.name, "title", `${peer.name}, ${peer.state}`);
    });
    setChildren(this.body, this.rows.slice(0, peers.length).map((row) => row.root));
  }

  renderShares(shares: Shares[]): void {
    shares.forEach((own, index) => {
      kColumns.forEach(([kind], column) => setText(this.rows[index].shares[column], percent(own[kind])));
    });
  }
}

function newRow(): Row {
  const name = html("span", { class: "name" });
  const place = html("span", { class: "place" });
  const shares = kColumns.map(([kind]) => html("td", { class: `share ${kind}` }));
  const root = html("tr", {}, html("th", { scope: "row" }, name, place), html("td", { class: "lane" }), ...shares);
  return { root, name, place, shares };
}
