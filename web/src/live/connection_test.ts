import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Connection, kSilence, type Socket, type Status } from "./connection";
import { tokenFrom, tokenIn } from "./session";

class FakeSocket implements Socket {
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  isClosed = false;
  close(): void {
    this.isClosed = true;
  }
}

let sockets: FakeSocket[];
let statuses: Status[];
let messages: unknown[];
let over: boolean;
let connection: Connection;

beforeEach(() => {
  vi.useFakeTimers();
  [sockets, statuses, messages, over] = [[], [], [], false];
  const open = () => {
    sockets.push(new FakeSocket());
    return sockets.at(-1)!;
  };
  connection = new Connection(open, {
    message: (message) => messages.push(message),
    status: (status) => statuses.push(status),
    isOver: () => over,
  });
  connection.start();
});

afterEach(() => {
  vi.useRealTimers();
});

function say(text: string): void {
  sockets.at(-1)!.onmessage!({ data: text });
}

function lose(): void {
  sockets.at(-1)!.onclose!();
}

it("is live with the first message", () => {
  expect(statuses).toEqual([]);
  say('{"type": "state"}');
  expect(statuses).toEqual(["live"]);
  expect(messages).toEqual([{ type: "state" }]);
});

it("tries again ever later, and soon again after it was live", () => {
  const delays = [500, 1000, 2000, 4000, 5000, 5000];
  for (const delay of delays) {
    lose();
    const before = sockets.length;
    vi.advanceTimersByTime(delay - 1);
    expect(sockets).toHaveLength(before);
    vi.advanceTimersByTime(1);
    expect(sockets).toHaveLength(before + 1);
  }
  say("{}");
  lose();
  vi.advanceTimersByTime(500);
  expect(sockets).toHaveLength(delays.length + 2);
});

it("takes silence for a loss", () => {
  say("{}");
  vi.advanceTimersByTime(kSilence - 1);
  say("{}");
  vi.advanceTimersByTime(kSilence - 1);
  expect(statuses.at(-1)).toBe("live");
  vi.advanceTimersByTime(1);
  expect(statuses.at(-1)).toBe("lost");
  expect(sockets[0].isClosed).toBe(true);
});

it("takes nonsense for a loss", () => {
  say("{");
  expect(statuses).toEqual(["lost"]);
  expect(messages).toEqual([]);
});

it("is in no hurry when the run is over", () => {
  say("{}");
  over = true;
  lose();
  vi.advanceTimersByTime(4999);
  expect(sockets).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(sockets).toHaveLength(2);
});

it("hears nothing more of a socket that it has given up", () => {
  say("{}");
  connection.start();
  expect(sockets[0].onmessage).toBeNull();
  expect(sockets[0].isClosed).toBe(true);
  vi.advanceTimersByTime(kSilence);
  expect(statuses.at(-1)).toBe("lost");
});

it("does not try again when it was stopped", () => {
  lose();
  connection.stop();
  vi.advanceTimersByTime(100_000);
  expect(sockets).toHaveLength(1);
  connection.start();
  expect(sockets).toHaveLength(2);
});

it("finds the token in an address", () => {
  expect(tokenIn("#token=0a1b2c")).toBe("0a1b2c");
  expect(tokenIn("#swarm")).toBeNull();
  expect(tokenIn("#token=")).toBeNull();
  expect(tokenIn("#token=a b")).toBeNull();
});

it("finds the token in what somebody pastes", () => {
  expect(tokenFrom(" 0a1b2c ")).toBe("0a1b2c");
  expect(tokenFrom("https://192.0.2.7:8443/#token=0a1b2c&certificate=AA:BB\n")).toBe("0a1b2c");
  expect(tokenFrom("")).toBeNull();
  expect(tokenFrom("https://192.0.2.7:8443/")).toBeNull();
});
