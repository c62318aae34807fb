"""Runs of the program whose results are kept and compared, for the benchmarks beside this file."""

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(os.environ.get("ROOKERY", ROOT / "build" / "rookery"))


def lines_of(path):
    kept = ("step", "seconds", "step_seconds", "eval_loss", "bytes_sent", "compute_seconds", "wait_seconds", "samples")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: line[key] for key in kept if key in line} for line in lines]


class Bench:
    def __init__(self, results, seeds):
        self.path, self.seeds = results, range(1, seeds + 1)
        program = hashlib.sha256(PROGRAM.read_bytes()).hexdigest()
        self.known = json.loads(results.read_text()) if results.exists() else {}
        if self.known.get("program") != program:  # what another one gave says nothing of this one
            self.known = {"program": program}
        self._lock = threading.Lock()

    def run(self, seed, settings, arguments=()):
        """The summary of a run, its lines, those of its peers by name, and its events."""
        settings = {**settings, "train.seed": seed}
        key = " ".join([json.dumps(settings, sort_keys=True), *arguments])
        if key not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                command = [PROGRAM, "train", "--json", "--out", f"{folder}/run", *arguments]
                for name, value in settings.items():
                    command += ["--set", f"{name}={value}"]
                result = subprocess.run(command, capture_output=True, text=True, check=False,
                                        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
                if result.returncode != 0:
                    sys.exit(f"{settings}\nfailed: {result.stderr}")
                summary = json.loads(result.stdout.splitlines()[-1])
                run = pathlib.Path(folder, "run")
                peers = {path.stem: lines_of(path) for path in sorted(run.glob("peers/*.jsonl"))}
                events = run / "events.jsonl"
                events = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
                self.keep(key, [summary, lines_of(run / "metrics.jsonl"), peers, events])
        return self.known[key]

    def keep(self, key, result):
        """For the next time; several threads may."""
        with self._lock:
            self.known[key] = result
            self.path.write_text(json.dumps(self.known))

    def compare(self, arms, between=lambda: None):
        """For each arm the list of its results, one for each seed; made seed by seed, with something in between."""
        results = {name: [] for name in arms}
        for seed in self.seeds:
            for name, settings in arms.items():
                between()
                results[name].append(self.run(seed, settings))
                summary = results[name][-1][0]
                print(f"  seed {seed}: {name:<28} loss {summary.get('eval_loss', summary['final_loss']):.4f}",
                      file=sys.stderr)
        return results


def spread(values, form="{:.3f}"):
    values = list(values)
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}–{form.format(max(values))})"


def print_table(rows):
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")
    print()


def main(parts, about, results, seeds):
    """Carries out those parts that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="\n".join(f"  {name:<13} {part.__doc__}" for name, part in parts.items()))
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="what to run; everything if left out")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / results, help="where results are kept")
    arguments = parser.parse_args()
    bench = Bench(arguments.results, arguments.seeds)
    for name in arguments.parts or parts:
        print(f"## {parts[name].__doc__}\n")
        parts[name](bench)
