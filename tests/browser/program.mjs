import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./until.mjs";

// Processes of the program, and folders for them. Whatever happens to the tests, both are gone after them.

export const kBuild = resolve(process.env.ROOKERY_BUILD ?? join(dirname(fileURLToPath(import.meta.url)), "../../build"));

const children = new Set();
const folders = new Set();

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), "rookery-browser-"));
  folders.add(folder);
  return folder;
}

export class Program {
  out = "";
  err = "";
  end = null; // its exit code, or the signal that has killed it
  #child;

  constructor(args, folder) {
    const env = { ...process.env, OMP_NUM_THREADS: "1", XDG_CACHE_HOME: join(folder, "cache") };
    this.#child = spawn(join(kBuild, "rookery"), args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    children.add(this.#child);
    this.#child.stdout.setEncoding("utf8").on("data", (text) => (this.out += text));
    this.#child.stderr.setEncoding("utf8").on("data", (text) => (this.err += text));
    this.#child.on("error", (error) => (this.end = error.message));
    this.#child.on("close", (code, signal) => {
      children.delete(this.#child);
      this.end = code ?? signal;
    });
  }

  async ended() {
    await until("the process ends", () => this.end !== null, () => this.err);
    return this.end;
  }

  kill(signal = "SIGKILL") {
    this.#child.kill(signal);
  }
}

// What it has written to standard output; fails unless it ends well.
export async function run(args, folder) {
  const program = new Program(args, folder);
  const code = await program.ended();
  if (code !== 0) throw new Error(`rookery ${args.join(" ")}: ${code}\n${program.err}`);
  return program.out;
}

// As arguments: --set train.steps=3.
export function settings(values) {
  return Object.entries(values).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
}
