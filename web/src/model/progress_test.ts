import { describe, expect, it } from "vitest";
import type { Peer, Run } from "./api";
import { SwarmClock } from "./clock";
import { inOrder, secondsLeft } from "./progress";
import { tableOf } from "./series";
import { emptyModel } from "./store";

function modelWith(rows: number[][], phase: Run["phase"] = "training") {
  const model = emptyModel();
  model.run = { step: 100, steps: 200, phase } as Run;
  model.plan = { generation: 1, clusters: 1, predicted_step_seconds: 3, measured_step_seconds: null };
  model.series = tableOf({ columns: ["step", "seconds"], stride: 1, rows });
  return model;
}

describe("secondsLeft", () => {
  it("follows the last rows", () => {
    expect(secondsLeft(modelWith([[90, 10], [100, 30]]))).toBeCloseTo(200);
  });

  it("leaves out pauses", () => {
    expect(secondsLeft(modelWith([[97, 10], [98, 12], [99, 1000], [100, 1002]]))).toBeCloseTo(200);
  });

  it("follows the plan before there are rows", () => {
    expect(secondsLeft(modelWith([]))).toBeCloseTo(300);
  });

  it("is unknown when nobody trains", () => {
    expect(secondsLeft(modelWith([[90, 10], [100, 30]], "paused"))).toBeNull();
  });
});

describe("inOrder", () => {
  it("goes by cluster, stage and number, and has those without a place last", () => {
    const peer = (name: string, cluster: number | null, stage: number | null) => ({ name, cluster, stage }) as Peer;
    const peers = [peer("b", null, null), peer("peer-10", 1, 0), peer("peer-9", 1, 0), peer("z", 0, 1), peer("y", 0, 0)];
    expect(inOrder(peers).map((one) => one.name)).toEqual(["y", "z", "peer-9", "peer-10", "b"]);
  });
});

describe("the clock", () => {
  it("runs on between messages, but not for long", () => {
    const clock = new SwarmClock();
    clock.hear(100, 5);
    expect(clock.now(6)).toBeCloseTo(101);
    expect(clock.now(60)).toBeCloseTo(102.5);
  });

  it("believes the quickest message most, and follows a jump", () => {
    const clock = new SwarmClock();
    clock.hear(100, 5);
    clock.hear(101, 6.5); // came half a second late
    expect(clock.now(6.5)).toBeGreaterThan(101.4);
    clock.hear(3, 7); // another process
    expect(clock.now(7)).toBeCloseTo(3);
  });
});
