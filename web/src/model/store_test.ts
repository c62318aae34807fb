import { describe, expect, it } from "vitest";
import type { Peer, Run, Span, State, SwarmEvent, Update } from "./api";
import { columnOf, latest } from "./series";
import { apply, changesOf, emptyModel, kMostEvents, kMostPeers, kMostSpans } from "./store";

const kRun = { name: "a", step: 1, steps: 10, phase: "training" } as Run;

function peer(name: string, more: Partial<Peer> = {}): Peer {
  return { name, state: "training", ...more } as Peer;
}

function event(id: number, more: Partial<SwarmEvent> = {}): SwarmEvent {
  return { id, seconds: id, step: 0, event: "joined", peer: "", text: "", ...more };
}

function state(more: Partial<State> = {}): State {
  return {
    type: "state",
    protocol: 1,
    seconds: 10,
    run: kRun,
    plan: null,
    peers: [],
    links: [],
    series: { columns: ["step", "seconds", "loss"], stride: 1, rows: [] },
    latest: null,
    spans: {},
    events: [],
    ...more,
  };
}

function update(more: Partial<Update>): Update {
  return { type: "update", seconds: 11, ...more };
}

describe("a state", () => {
  it("takes the place of all that was known", () => {
    const model = emptyModel();
    apply(model, state({ peers: [peer("a")], events: [event(7)], spans: { a: [["forward", 9, 10]] } }));
    apply(model, state({ peers: [peer("b")], events: [event(1)] }));
    expect([...model.peers.keys()]).toEqual(["b"]);
    expect(model.events.map((one) => one.id)).toEqual([1]);
    expect(model.spans.size).toBe(0);
  });
});

describe("an update", () => {
  it("changes what it names and nothing else", () => {
    const model = emptyModel();
    apply(model, state({ peers: [peer("a"), peer("b")] }));
    const peers = changesOf("peers");
    const others = changesOf("run", "plan", "links", "series", "spans", "events");
    peers(model);
    others(model);
    apply(model, update({ peers: [peer("b", { state: "lost" })] }));
    expect(peers(model)).toBe(true);
    expect(peers(model)).toBe(false);
    expect(others(model)).toBe(false);
    expect([...model.peers.values()].map((one) => one.state)).toEqual(["training", "lost"]);
    expect(model.seconds).toBe(11);
  });

  it("keeps what it does not mention of a peer and of the run", () => {
    const model = emptyModel();
    apply(model, state({ run: { ...kRun, may_control: true }, peers: [peer("a", { host: "h", log: ["x"] })] }));
    apply(model, update({ run: { step: 2, phase: "paused" }, peers: [{ name: "a", state: "waiting" }] }));
    expect(model.run).toMatchObject({ name: "a", step: 2, phase: "paused", may_control: true });
    expect(model.peers.get("a")).toMatchObject({ state: "waiting", host: "h", log: ["x"] });
  });

  it("takes names for names, whatever they are", () => {
    const model = emptyModel();
    const spans = JSON.parse('{"__proto__": [["forward", 10, 11]], "constructor": [["update", 10, 11]]}');
    apply(model, state());
    apply(model, update({ peers: [peer("__proto__")], spans }));
    expect(model.peers.get("__proto__")?.state).toBe("training");
    expect([...model.spans.keys()]).toEqual(["__proto__", "constructor"]);
  });

  it("can take the plan away", () => {
    const model = emptyModel();
    apply(model, state({ plan: { generation: 1, clusters: 1, predicted_step_seconds: null, measured_step_seconds: null } }));
    apply(model, update({}));
    expect(model.plan?.generation).toBe(1);
    apply(model, update({ plan: null }));
    expect(model.plan).toBeNull();
  });
});

describe("the series", () => {
  const rows = [
    [1, 0.5, 3],
    [2, 1, 2],
    [3, 1.5, null],
  ];

  it("grows by rows", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 1, rows } }));
    apply(model, update({ series: { rows: [[4, 2, 1]] } }));
    expect(columnOf(model.series, "step")).toEqual([1, 2, 3, 4]);
    expect(columnOf(model.series, "loss")).toEqual([3, 2, null, 1]);
  });

  it("is replaced by a thinner one", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 1, rows } }));
    apply(model, update({ series: { columns: ["step", "loss"], stride: 2, rows: [[2, 2.5]] } }));
    expect(model.series.rows).toBe(1);
    expect(model.series.stride).toBe(2);
    expect(columnOf(model.series, "seconds")).toEqual([]);
  });

  it("loses the steps that are done again", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 1, rows } }));
    apply(model, update({ series: { rows: [[2, 9, 5]] } }));
    expect(columnOf(model.series, "step")).toEqual([1, 2]);
    expect(latest(model.series, "loss")).toBe(5);
  });

  it("ends with the last step, however many steps a row stands for", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 64, rows: [[64, 32, 3]] }, latest: [70, 35, 9] }));
    expect(columnOf(model.series, "step")).toEqual([64, 70]);
    const series = changesOf("series");
    series(model);
    apply(model, update({ latest: [71, 35.5, 8] }));
    expect(series(model)).toBe(true);
    expect(columnOf(model.series, "step")).toEqual([64, 71]);
    expect(latest(model.series, "loss")).toBe(8);
    apply(model, update({ series: { rows: [[128, 64, 2]] }, latest: [128, 64, 5] }));
    expect(columnOf(model.series, "step")).toEqual([64, 128]);
    expect(latest(model.series, "loss")).toBe(2);
    apply(model, update({ latest: [130, 65, 4] }));
    apply(model, update({ series: { columns: ["step", "seconds", "loss"], stride: 128, rows: [[128, 64, 2.5]] }, latest: [131, 66, 3] }));
    expect(columnOf(model.series, "step")).toEqual([128, 131]);
    expect(model.series.rows).toBe(2);
  });

  it("goes back with the last step", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 4, rows: [[4, 2, 3]] }, latest: [7, 4, 9] }));
    apply(model, update({ latest: [6, 5, 8] }));
    expect(columnOf(model.series, "step")).toEqual([4, 6]);
  });

  it("knows the latest value there is", () => {
    const model = emptyModel();
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 1, rows } }));
    expect(latest(model.series, "loss")).toBe(2);
    expect(latest(model.series, "nothing")).toBeNull();
  });
});

describe("what is kept", () => {
  it("are spans of a minute", () => {
    const model = emptyModel();
    apply(model, state({ spans: { a: [["forward", 1, 2]], b: [["forward", 1, 65]] } }));
    apply(model, update({ seconds: 70, spans: { b: [["update", 69, 70]] } }));
    expect(model.spans.has("a")).toBe(false);
    expect(model.spans.get("b")).toHaveLength(2);
  });

  it("are so many spans, even if time stands still", () => {
    const model = emptyModel();
    const many: Span[] = Array.from({ length: kMostSpans + 10 }, (_, index) => ["forward", 10 + index * 1e-6, 10 + index * 1e-6]);
    apply(model, state({ spans: { a: many } }));
    expect(model.spans.get("a")).toHaveLength(kMostSpans);
    expect(model.spans.get("a")!.at(-1)).toEqual(many.at(-1));
  });

  it("are 500 events, each once", () => {
    const model = emptyModel();
    apply(model, state({ events: Array.from({ length: 480 }, (_, index) => event(index)) }));
    const added = apply(model, update({ events: [event(479), ...Array.from({ length: 30 }, (_, index) => event(480 + index))] }));
    expect(added).toHaveLength(30);
    expect(model.events).toHaveLength(kMostEvents);
    expect(model.events[0].id).toBe(10);
    expect(model.events.at(-1)!.id).toBe(509);
  });

  it("are those peers who are here, or have a place", () => {
    const model = emptyModel();
    const gone = Array.from({ length: 3000 }, (_, index) => peer(`gone-${index}`, { state: "refused", cluster: null }));
    apply(model, state({ peers: [peer("here"), peer("placed", { state: "lost", cluster: 0 }), ...gone] }));
    expect(model.peers.size).toBe(kMostPeers);
    expect(model.peers.has("here") && model.peers.has("placed")).toBe(true);
    expect(model.peers.has("gone-0")).toBe(false);
    expect(model.peers.has("gone-2999")).toBe(true);
  });

  it("are some thousand rows, should the server not thin them out", () => {
    const model = emptyModel();
    const rows = Array.from({ length: 5000 }, (_, index) => [index, index, 1]);
    apply(model, state({ series: { columns: ["step", "seconds", "loss"], stride: 1, rows } }));
    expect(model.series.rows).toBe(4000);
    expect(columnOf(model.series, "step").at(-1)).toBe(4999);
  });
});
