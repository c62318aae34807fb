import type { Phase, SwarmEvent } from "../model/api";

// What happened, as a sentence about a peer or about the run. Kinds that this page does not know are shown by their name.
const kAboutPeer: Record<string, string> = {
  joined: "joined",
  ready: "is ready",
  refused: "was not admitted",
  left: "has left",
  began: "began to train",
  missed: "was missed",
  lost: "was lost",
  restores: "fetches the state of its place",
  restored: "has the state of its place",
  "stands in": "stands in for a lost peer",
  returned: "is back",
  suspected: "is suspected",
  "round failed": "had a round that failed",
  expelled: "was expelled",
  relieved: "stood in, and was relieved",
  checkpoint: "saved a checkpoint",
};

const kAboutRun: Record<string, string> = {
  planned: "A plan was made",
  began: "Training began",
  checkpoint: "A checkpoint was saved",
  rewound: "The run was rewound",
  moves: "Another plan is worth it",
  "goes back": "No whole copy is left",
  "taken up": "The run was taken up",
  stuck: "The swarm was stuck",
  chaos: "Chaos",
  pausing: "Pausing",
  paused: "Paused",
  resumed: "Resumed",
  stopped: "Stopped",
  ended: "The run has ended",
  failed: "The run has failed",
};

const kImportant = new Set(["lost", "expelled", "stuck", "missed", "failed"]);

export function isImportant(kind: string): boolean {
  return kImportant.has(kind);
}

// Without the peer's name, which comes before it.
export function predicateOf(event: SwarmEvent): string {
  const known = event.peer ? kAboutPeer : kAboutRun;
  return Object.hasOwn(known, event.event) ? known[event.event] : event.event;
}

export function sentenceOf(event: SwarmEvent): string {
  const what = event.peer ? `${event.peer} ${predicateOf(event)}` : predicateOf(event);
  return event.text ? `${what}: ${event.text}` : what;
}

const kPhases: Record<Phase, string> = {
  gathering: "gathering peers",
  training: "training",
  pausing: "pausing",
  paused: "paused",
  ended: "ended",
  failed: "failed",
};

export function phaseWords(phase: Phase): string {
  return kPhases[phase] ?? phase;
}

export function plural(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
