import type { Link, Message, Peer, Plan, Run, Span, State, SwarmEvent, Update } from "./api";
import { addRows, emptyTable, setTail, tableOf, type Table } from "./series";

// All that the page knows, made from the messages of the server. Views compare revisions to see what is new since they drew last.
// Peers' names come from strangers, so they are keys of maps, never of objects.
export interface Model {
  seconds: number;
  protocol: number;
  run: Run | null;
  plan: Plan | null;
  peers: Map<string, Peer>;
  links: Link[];
  series: Table;
  spans: Map<string, Span[]>;
  events: SwarmEvent[];
  revision: Record<Part, number>;
}

export type Part = "run" | "plan" | "peers" | "links" | "series" | "spans" | "events";

export const kKeptSpanSeconds = 60;
export const kMostSpans = 5000; // of a peer
export const kMostEvents = 500;
export const kMostPeers = 2048;

const kGone = new Set(["lost", "left", "refused", "expelled", "ended"]);

export function emptyModel(): Model {
  return {
    seconds: 0,
    protocol: 0,
    run: null,
    plan: null,
    peers: new Map(),
    links: [],
    series: emptyTable(),
    spans: new Map(),
    events: [],
    revision: { run: 0, plan: 0, peers: 0, links: 0, series: 0, spans: 0, events: 0 },
  };
}

// Returns the events that were not known before.
export function apply(model: Model, message: Message): SwarmEvent[] {
  model.seconds = message.seconds;
  if (message.type === "state") clear(model, message);
  return add(model, message);
}

// Tells whether one of these parts has changed since it was asked last.
export function changesOf(...parts: Part[]): (model: Model) => boolean {
  let seen = "";
  return (model) => {
    const now = parts.map((part) => model.revision[part]).join();
    if (now === seen) return false;
    seen = now;
    return true;
  };
}

function clear(model: Model, state: State): void {
  model.protocol = state.protocol;
  model.run = null;
  model.plan = null;
  model.peers = new Map();
  model.links = [];
  model.series = emptyTable();
  model.spans = new Map();
  model.events = [];
  for (const part of Object.keys(model.revision) as Part[]) model.revision[part]++;
}

function add(model: Model, message: State | Update): SwarmEvent[] {
  const { revision } = model;
  if (message.run) {
    model.run = { ...model.run, ...message.run } as Run; // updates leave out what has not changed
    revision.run++;
  }
  if (message.plan !== undefined) {
    model.plan = message.plan;
    revision.plan++;
  }
  if (message.peers?.length) {
    for (const peer of message.peers) model.peers.set(peer.name, { ...model.peers.get(peer.name), ...peer } as Peer);
    forgetSome(model.peers);
    revision.peers++;
  }
  if (message.links) {
    model.links = message.links;
    revision.links++;
  }
  if (message.series) {
    if ("columns" in message.series) model.series = tableOf(message.series);
    else addRows(model.series, message.series.rows);
    revision.series++;
  }
  if (message.latest) {
    setTail(model.series, message.latest);
    revision.series++;
  }
  addSpans(model, message.spans ?? {});
  return addEvents(model, message.events ?? []);
}

// Those who have gone and had no place, the first that came first, as the server does.
function forgetSome(peers: Map<string, Peer>): void {
  for (const peer of peers.values()) {
    if (peers.size <= kMostPeers) return;
    if (peer.cluster === null && kGone.has(peer.state)) peers.delete(peer.name);
  }
}

function addSpans(model: Model, spans: Record<string, Span[]>): void {
  for (const [name, added] of Object.entries(spans)) {
    const known = model.spans.get(name);
    if (known) for (const span of added) known.push(span);
    else model.spans.set(name, [...added]);
    model.revision.spans++;
  }
  const oldest = model.seconds - kKeptSpanSeconds;
  for (const [name, known] of model.spans) {
    let old = Math.max(0, known.length - kMostSpans);
    while (old < known.length && known[old][2] < oldest) old++;
    if (old > 0) known.splice(0, old);
    if (known.length === 0) model.spans.delete(name);
  }
}

function addEvents(model: Model, events: SwarmEvent[]): SwarmEvent[] {
  const last = model.events.at(-1)?.id ?? -Infinity;
  const added = events.filter((event) => event.id > last);
  if (added.length === 0) return added;
  model.events = [...model.events, ...added].slice(-kMostEvents);
  model.revision.events++;
  return added;
}
