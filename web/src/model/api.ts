// What the server says, as docs/dashboard.md has it. Seconds, bytes and bytes per second throughout; `seconds`, `begin` and `end` are on
// the clock of the coordinator.

export type Phase = "gathering" | "training" | "pausing" | "paused" | "ended" | "failed";

export interface Run {
  name: string;
  model: string;
  data: string;
  parameters: number;
  method: string;
  schedule: string;
  first_step: number;
  step: number;
  steps: number;
  phase: Phase;
  why: string;
  may_control: boolean;
}

export interface Plan {
  generation: number;
  clusters: number;
  predicted_step_seconds: number | null;
  measured_step_seconds: number | null;
}

export type PeerState =
  | "joining"
  | "ready"
  | "training"
  | "waiting"
  | "restoring"
  | "silent"
  | "lost"
  | "left"
  | "refused"
  | "expelled"
  | "ended";

export interface Memory {
  resident: number | null;
  planned: number | null;
  limit: number | null;
  available: number | null; // with what was free on its computer when it came
}

export interface Peer {
  name: string;
  state: PeerState;
  why: string;
  cluster: number | null;
  stage: number | null;
  layers: [first: number, behindLast: number] | null;
  host: string;
  hardware: string;
  cores: number;
  speed: number;
  stands_in: boolean;
  memory: Memory;
  step: number;
  step_seconds: number | null;
  compute_seconds: number | null;
  wait_seconds: number | null;
  bytes_sent: number;
  bytes_received: number;
  send_rate: number;
  receive_rate: number;
  staleness: number | null;
  rounds_failed: number;
  log: string[];
}

export interface Link {
  from: string;
  to: string;
  kind: "pipeline" | "ring" | "both";
  rate: number;
  bandwidth: number | null;
  latency: number | null;
  use: number | null;
}

export type Row = (number | null)[];

export interface Series {
  columns: string[];
  stride: number;
  rows: Row[];
}

export type SpanKind = "forward" | "backward" | "update" | "wait" | "round";
export type Span = [kind: SpanKind, begin: number, end: number];

export interface SwarmEvent {
  id: number;
  seconds: number;
  step: number;
  event: string;
  peer: string;
  text: string;
}

export interface State {
  type: "state";
  protocol: number;
  seconds: number;
  run: Run;
  plan: Plan | null;
  peers: Peer[];
  links: Link[];
  series: Series;
  latest: Row | null; // the last step alone
  spans: Record<string, Span[]>;
  events: SwarmEvent[];
}

// Only what has changed: a run without `may_control`, and of a peer its name and what is new of it.
export interface Update {
  type: "update";
  seconds: number;
  run?: Partial<Run>;
  plan?: Plan | null;
  peers?: (Partial<Peer> & { name: string })[];
  links?: Link[];
  series?: Series | { rows: Row[] };
  latest?: Row | null;
  spans?: Record<string, Span[]>;
  events?: SwarmEvent[];
}

export type Message = State | Update;

export const kProtocol = 1;
