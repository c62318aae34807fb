// A swarm that is made up, in the words of docs/dashboard.md: it trains, loses a peer now and then, and takes it back.

const kColumns = ["step", "seconds", "loss", "eval_loss", "eval_accuracy", "lr", "grad_norm", "consensus_distance", "drift",
  "tokens_per_second", "step_seconds", "wait_share"];
const kStepSeconds = 0.25;
const kSteps = 4000;

export class MockSwarm {
  constructor({ peers, stages, rate, rows }) {
    this.rate = rate; // spans of a peer in a second
    this.seconds = rows * kStepSeconds;
    this.step = rows;
    this.run = {
      name: "pipeline", model: "gpt", data: "tales", parameters: 842_500, method: "palsgd", schedule: "async",
      first_step: 0, step: rows, steps: kSteps, phase: "training", why: "",
    };
    this.plan = { generation: 3, clusters: 2, predicted_step_seconds: 0.293, measured_step_seconds: 0.251 };
    this.peers = placesOf(peers, stages).map(([cluster, stage, layers], index) => peerOf(`peer-${index}`, cluster, stage, layers));
    this.others();
    this.links = linksOf(this.peers);
    this.rows = Array.from({ length: rows }, (_, index) => rowOf(index + 1));
    this.events = [];
    this.nextSpan = new Map();
    for (const peer of this.peers) this.note(["training", "joining"].includes(peer.state) ? "joined" : peer.state, peer.name, peer.why);
    this.note("planned", "", "generation 3: 2 segments, async: peer-0 → peer-1; peer-2 → peer-3 → peer-4, kept one by palsgd");
    this.note("began", "", "");
    this.spans = this.newSpans(30);
  }

  others() {
    this.peers.push(
      { ...peerOf("spare-0", null, null, null), state: "ready" },
      { ...peerOf("laptop-of-a-friend-with-a-long-name", null, null, null), state: "joining", why: "it builds its layers" },
      { ...peerOf("old", null, null, null), state: "refused", why: "its version is 0.1, and the swarm's is 0.2" },
      { ...peerOf("guest", null, null, null), state: "left", why: "it was stopped with Ctrl-C" },
    );
  }

  state(mayControl) {
    return {
      type: "state", protocol: 1, seconds: this.seconds, run: { ...this.run, may_control: mayControl }, plan: this.plan,
      peers: this.peers, links: this.links, series: { columns: kColumns, stride: 1, rows: this.rows.slice(-2000) }, latest: this.rows.at(-1),
      spans: this.spans, events: this.events.slice(-500),
    };
  }

  // What changes in a quarter of a second.
  advance(elapsed) {
    this.seconds += elapsed;
    const events = this.events.length;
    const rows = [];
    if (this.run.phase === "pausing") this.setPhase("paused");
    if (this.run.phase === "training") {
      const done = Math.min(kSteps, Math.floor(this.seconds / kStepSeconds) - Math.floor((this.seconds - elapsed) / kStepSeconds) + this.step);
      while (this.step < done) rows.push(rowOf(++this.step));
      for (const row of rows) row[1] = this.seconds;
      this.rows.push(...rows);
      this.run.step = this.step;
      if (this.step >= kSteps) this.setPhase("ended");
    }
    this.chaos();
    for (const peer of this.peers) moveOn(peer, this.step, elapsed);
    for (const link of this.links) wander(link);
    const spans = this.run.phase === "training" ? this.newSpans(elapsed) : {};
    for (const [name, added] of Object.entries(spans)) this.spans[name] = [...(this.spans[name] ?? []), ...added].slice(-2000);
    return {
      type: "update", seconds: this.seconds, run: this.run, plan: this.plan, peers: this.peers.map(newsOf), links: this.links,
      series: { rows }, latest: this.rows.at(-1), spans, events: this.events.slice(events),
    };
  }

  setPhase(phase) {
    this.run.phase = phase;
    if (phase !== "training") this.note(phase, "", "");
  }

  note(event, peer, text) {
    this.events.push({ id: this.events.length + 1, seconds: this.seconds, step: this.step, event, peer, text });
  }

  // Peer 1 is lost twice a minute, and comes back.
  chaos() {
    const [peer, moment] = [this.peers[1], Math.floor(this.seconds) % 30];
    const next = moment < 12 ? "training" : moment < 14 ? "silent" : moment < 20 ? "lost" : moment < 23 ? "joining" : moment < 27 ? "restoring" : "training";
    if (peer.state === next) return;
    peer.state = next;
    peer.why = { silent: "nothing was heard of it for 2 s", lost: "its link to peer-0 was closed", restoring: "from peer-3" }[next] ?? "";
    if (next === "silent") this.note("missed", peer.name, "nothing came for 2 s, says peer-0");
    if (next === "lost") this.note("lost", peer.name, peer.why);
    if (next === "joining") this.note("joined", peer.name, "");
    if (next === "restoring") this.note("restores", peer.name, "");
    if (next === "training") this.note("restored", peer.name, "");
  }

  newSpans(elapsed) {
    const spans = {};
    for (const peer of this.peers) {
      if (peer.state !== "training") continue;
      const own = (spans[peer.name] = []);
      let at = Math.max(this.nextSpan.get(peer.name) ?? 0, this.seconds - elapsed);
      while (at < this.seconds) {
        const unit = 1 / this.rate;
        own.push(["forward", at, at + unit * 0.6], ["backward", at + unit * 0.7, at + unit * 1.9], ["update", at + unit * 1.9, at + unit * 2.1]);
        if (Math.random() < 0.3) own.push(["round", at, at + unit * 2]);
        at += unit * (2.3 + Math.random() * 0.8);
      }
      this.nextSpan.set(peer.name, at);
    }
    return spans;
  }
}

// [cluster, stage, layers] of each peer: two clusters with different cuts, or equal ones.
function placesOf(peers, stages) {
  if (peers === 5) return [[0, 0, [0, 3]], [0, 1, [3, 6]], [1, 0, [0, 2]], [1, 1, [2, 4]], [1, 2, [4, 6]]];
  const each = 12 / stages;
  return Array.from({ length: peers }, (_, index) => {
    const stage = index % stages;
    return [Math.floor(index / stages), stage, [stage * each, (stage + 1) * each]];
  });
}

function peerOf(name, cluster, stage, layers) {
  return {
    name, state: "training", why: "", cluster, stage, layers, host: `host-${name.length}.example`, hardware: "8 cores, AVX2, 16 GiB",
    cores: 4, speed: 0.5, stands_in: false, memory: { resident: 166 * 2 ** 20, planned: layers && 150 * 2 ** 20, limit: 512 * 2 ** 20 },
    step: 0, step_seconds: layers && 0.24, compute_seconds: layers && 0.17, wait_seconds: layers && 0.07, bytes_sent: 0, bytes_received: 0,
    send_rate: 0, receive_rate: 0, staleness: layers && 2, rounds_failed: 0, log: Array.from({ length: 12 }, (_, line) => `info  step ${line}: all is well`),
  };
}

function newsOf({ name, state, why, step, bytes_sent, bytes_received, send_rate, receive_rate }) {
  return { name, state, why, step, bytes_sent, bytes_received, send_rate, receive_rate };
}

function linksOf(peers) {
  const links = [];
  const add = (from, to, kind) => links.push({ from: from.name, to: to.name, kind, rate: 0, bandwidth: 25 * 2 ** 20, latency: 0.0021, use: 0 });
  const placed = peers.filter((peer) => peer.layers);
  const clusters = 1 + Math.max(...placed.map((peer) => peer.cluster));
  for (const a of placed) {
    for (const b of placed) {
      if (a.cluster === b.cluster && Math.abs(a.stage - b.stage) === 1) add(a, b, "pipeline");
      const overlap = a.layers[0] < b.layers[1] && b.layers[0] < a.layers[1];
      if (overlap && b.cluster === (a.cluster + 1) % clusters && a !== b) add(a, b, "ring");
    }
  }
  return links;
}

function moveOn(peer, step, elapsed) {
  const isBusy = peer.state === "training" && peer.layers;
  peer.send_rate = isBusy ? (6 + 6 * Math.random()) * 2 ** 20 : 0;
  peer.receive_rate = peer.send_rate * 0.9;
  peer.bytes_sent += peer.send_rate * elapsed;
  peer.bytes_received += peer.receive_rate * elapsed;
  if (isBusy) peer.step = step;
}

function wander(link) {
  const target = link.kind === "ring" ? 0.35 : 0.6;
  link.use = Math.min(1, Math.max(0, link.use + (target - link.use) * 0.2 + (Math.random() - 0.5) * 0.35));
  link.rate = link.use * link.bandwidth;
}

function rowOf(step) {
  const loss = 0.09 + 3.2 * Math.exp(-step / 400) + 0.02 * Math.random();
  const isEvaluation = step % 50 === 0;
  return [step, step * kStepSeconds, loss, isEvaluation ? loss + 0.012 : null, isEvaluation ? 1 - Math.exp(-step / 600) : null,
    1e-3 * Math.min(1, step / 100) * (1 - step / kSteps), 0.5 + Math.random(), step % 10 ? null : 0.3 + 0.1 * Math.random(),
    step % 10 ? null : 0.12 + 0.05 * Math.random(), 16_000 + 3000 * Math.random(), kStepSeconds * (0.9 + 0.3 * Math.random()), 0.26 + 0.06 * Math.random()];
}
