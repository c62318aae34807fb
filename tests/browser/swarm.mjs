import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Program, settings, temporaryFolder } from "./program.mjs";
import { until } from "./until.mjs";

// The address of the dashboard that a process shows its run with.
export async function addressOf(program) {
  const found = () => /^dashboard: (https?:\S+#token=\S+)$/m.exec(program.err)?.[1];
  return new URL(await until("the address of the dashboard", found, () => program.err));
}

// A coordinator and peers that join it, each a process of its own.
export class Swarm {
  folder = temporaryFolder();
  peers = new Map();

  constructor(values) {
    this.coordinator = new Program(["coordinate", "--listen", "127.0.0.1:0", "--out", "run", ...settings(values)], this.folder);
  }

  async address() {
    return addressOf(this.coordinator);
  }

  // At a tenth of this computer's speed, which leaves time for the browser.
  async join(name) {
    const ticket = await until("the ticket", () => /^rookery join (\S+)$/m.exec(this.coordinator.out)?.[1], () => this.coordinator.err);
    this.peers.set(name, new Program(["join", ticket, "--name", name, "--speed", "0.1"], this.folder));
  }

  // What its files say. The last line may be half written.
  metrics() {
    const text = readFileSync(join(this.folder, "run", "metrics.jsonl"), "utf8");
    return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
  }

  checkpoints() {
    const folder = join(this.folder, "run", "checkpoints");
    return existsSync(folder) ? readdirSync(folder) : [];
  }

  end() {
    for (const process of [...this.peers.values(), this.coordinator]) process.kill();
  }
}
