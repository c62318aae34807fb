import type { Message } from "../model/api";
import { protocols } from "./session";

// The WebSocket to the server, opened again whenever it is lost: after half a second first, then ever later, up to five seconds. Silence
// counts as lost, too: the server says something every two seconds at least.

export type Status = "connecting" | "live" | "lost";

// What is used of a WebSocket.
export interface Socket {
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: (() => void) | null;
  close(): void;
}

export interface Listener {
  message(message: Message): void;
  status(status: Status): void;
  isOver(): boolean; // the run, so that the server may well have gone for good
}

export const kShortestDelay = 500;
export const kLongestDelay = 5000;
export const kSilence = 10_000;

export class Connection {
  private socket: Socket | null = null;
  private failures = 0;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly open: () => Socket,
    private readonly listener: Listener,
  ) {}

  // Also ends what there was before.
  start(): void {
    this.drop();
    const socket = this.open();
    this.socket = socket;
    socket.onmessage = (event) => this.heard(event.data);
    socket.onclose = () => this.lost();
    this.watch();
  }

  private heard(data: unknown): void {
    let message: Message;
    try {
      message = JSON.parse(String(data));
    } catch {
      this.lost(); // what follows cannot be trusted either; a new connection begins with all that is known
      return;
    }
    this.watch();
    this.failures = 0;
    this.listener.message(message);
    this.listener.status("live");
  }

  private lost(): void {
    this.drop();
    const delay = Math.min(kShortestDelay * 2 ** this.failures++, kLongestDelay);
    this.retry = setTimeout(() => this.start(), this.listener.isOver() ? kLongestDelay : delay);
    this.listener.status("lost");
  }

  private watch(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lost(), kSilence);
  }

  // Until it is started again.
  stop(): void {
    this.drop();
  }

  private drop(): void {
    clearTimeout(this.silence);
    clearTimeout(this.retry);
    if (!this.socket) return;
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.socket = null;
  }
}

export function openLive(): Socket {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(`${scheme}//${location.host}/api/live`, protocols()) as unknown as Socket;
}
