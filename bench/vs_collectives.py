#!/usr/bin/env python3
"""Runs Rookery, Gloo, OpenMPI and a raw TCP pair in turns, and prints how fast each all-reduces.

Each repetition runs all of them one after another; a figure is the median of the repetitions' medians, and a ratio is taken
within a repetition, with its lowest and highest. GB/s are bytes of one peer's buffer per second. The raw pair moves what an
all-reduce between two has to move, both ways at once, and does nothing with it.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
UNITS = {"KiB": 2**10, "MiB": 2**20}


def parse_size(text):
    return int(text[:-3]) * UNITS[text[-3:]]


def output(command):
    result = subprocess.run([str(c) for c in command], env=ENVIRONMENT, capture_output=True, text=True, timeout=600,
                            check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed: {result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def rookery(transport):
    def run(peers, size, iterations):
        return output([BUILD / "rookery", "bench", "allreduce", "--peers", peers, "--size", f"{size}B", "--transport",
                       transport, "--iterations", iterations, "--json"])["seconds"]["median"]
    return run


def gloo(peers, size, iterations):
    return statistics.median(output([BUILD / "vs_collectives/gloo_allreduce", peers, size, iterations]))


def mpi(options):
    def run(peers, size, iterations):
        program = BUILD / "vs_collectives/mpi_allreduce"
        return statistics.median(output([*MPIRUN, *options, "-np", peers, program, size, iterations]))
    return run


def raw_tcp(peers, size, iterations):
    return statistics.median(output([BUILD / "vs_collectives/raw_tcp", size, iterations])) if peers == 2 else None


CONTENDERS = {
    "shm": rookery("shm"),
    "tcp": rookery("tcp"),
    "Gloo": gloo,
    "MPI": mpi([]),
    "MPI tcp": mpi(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]),
    "raw": raw_tcp,
}
RATIOS = [("shm", "Gloo"), ("shm", "MPI"), ("tcp", "Gloo"), ("tcp", "MPI tcp"), ("tcp", "raw")]


# What Rookery's own options cost or gain: (what, arguments, index of the row to compare with).
OPTIONS = [
    ("plain TCP", ["--transport", "tcp"], None),
    ("striped over 3 sockets", ["--transport", "tcp", "--lanes", 3], 0),
    ("TLS", ["--tls"], 0),
    ("TLS, striped over 3 sockets", ["--tls", "--lanes", 3], 0),
    ("shared memory, bf16", ["--transport", "shm", "--codec", "bf16"], None),
    ("200 Mbit/s and 40 ms", ["--bandwidth", "200mbit", "--latency", "40ms", "--iterations", 3], None),
    ("100 Mbit/s, 16 MiB", ["--bandwidth", "100mbit", "--size", "16MiB", "--iterations", 3], None),
    ("100 Mbit/s, 16 MiB, int8", ["--bandwidth", "100mbit", "--size", "16MiB", "--codec", "int8", "--iterations", 3], 6),
]


def options_table(repetitions):
    print("\nRookery's options: 64 MiB between two peers unless said otherwise, medians (lowest–highest)\n\n"
          "| | options of `bench allreduce` | time, ms | GB/s | of the line | against |\n|---|---|---|---|---|---|", flush=True)
    runs = [[output([BUILD / "rookery", "bench", "allreduce", "--json", *arguments]) for _, arguments, _ in OPTIONS]
            for _ in range(repetitions)]

    def spread(values, digits):
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"

    for i, (what, arguments, base) in enumerate(OPTIONS):
        rows = [run[i] for run in runs]
        seconds = [row["seconds"]["median"] for row in rows]
        share = "–" if rows[0]["limit_share"] is None else spread([100 * row["limit_share"] for row in rows], 0) + " %"
        against = "–"
        if base is not None:
            against = spread([run[base]["seconds"]["median"] / run[i]["seconds"]["median"] for run in runs], 2)
            against += f" times as fast as {OPTIONS[base][0]}"
        rate = statistics.median(row["algorithm_bytes_per_second"] for row in rows) / 1e9
        print(f"| {what} | `{' '.join(map(str, arguments))}` | {spread([1e3 * s for s in seconds], 0)} | {rate:.2f} | {share} "
              f"| {against} |", flush=True)


def figure(size, seconds):
    if seconds is None:
        return "–"
    return f"{1e6 * seconds:.0f} us" if size < 2**16 else f"{size / seconds / 1e9:.2f}"


def ratio(runs, ours, theirs):
    """How many times faster, for those who ran."""
    values = [run[theirs] / run[ours] for run in runs if run[theirs] is not None]
    if not values:
        return "–"
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--sizes", nargs="*", default=["1KiB", "64KiB", "1MiB", "64MiB", "256MiB"])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--options-only", action="store_true", help="only the table of Rookery's own options")
    args = parser.parse_args()
    if args.options_only:
        return options_table(args.repetitions)
    print("GB/s, or time for small sizes; then how many times faster Rookery is: "
          f"median (lowest–highest) of {args.repetitions} interleaved repetitions\n")
    heading = [*CONTENDERS, *(f"{a} / {b}" for a, b in RATIOS)]
    print("| size | peers | " + " | ".join(heading) + " |\n" + "|---" * (len(heading) + 2) + "|", flush=True)
    for peers in args.peers:
        for text in args.sizes:
            size = parse_size(text)
            iterations = 5 if size >= 2**26 else 20 if size >= 2**20 else 300
            runs = [{name: run(peers, size, iterations) for name, run in CONTENDERS.items()}
                    for _ in range(args.repetitions)]
            medians = {name: statistics.median(r[name] for r in runs) if runs[0][name] is not None else None
                       for name in CONTENDERS}
            cells = [figure(size, medians[name]) for name in CONTENDERS] + [ratio(runs, a, b) for a, b in RATIOS]
            print(f"| {text} | {peers} | " + " | ".join(cells) + " |", flush=True)
    return options_table(args.repetitions)


if __name__ == "__main__":
    main()
