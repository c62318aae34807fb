#!/usr/bin/env python3
"""Runs Rookery and PyTorch in turns on the same models and prints how many times faster Rookery is.

Each repetition runs the three sides one after another: Rookery, PyTorch as it comes, and PyTorch tuned: with the memory
settings that Rookery uses (no return of freed memory to the kernel, huge pages), and with OpenMP threads that sleep
instead of spinning, which otherwise take the cores from OpenBLAS's own threads. A ratio is taken within a repetition;
the table shows the median of the ratios and their range.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What glibc needs to be told to treat PyTorch's tensors the way Rookery's allocator treats its own; and what keeps
# PyTorch's two sets of threads from fighting each other.
TUNED = {
    "OMP_WAIT_POLICY": "passive",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:"
                      "glibc.malloc.top_pad=67108864"
}

# name: (model, sizes, batch, steps)
CASES = {
    "gpt-128x8": ("gpt", dict(layers=8, width=128, heads=8, context=256), 8, 15),
    "gpt-125m": ("gpt", dict(layers=12, width=768, heads=12, context=256, vocabulary=50257), 1, 7),
    "gpt-neo-8m": ("gpt", dict(layers=8, width=128, heads=8, context=256, vocabulary=50257), 4, 8),
    "bert": ("bert", dict(layers=4, width=256, heads=4, context=128), 16, 12),
    "seq2seq": ("seq2seq", dict(layers=3, width=256, heads=4, context=64, vocabulary=1024), 64, 12),
    "mlp": ("mlp", {}, 128, 40),
    "cnn": ("cnn", {}, 64, 15),
    "resnet18": ("resnet18", {}, 16, 8),
    "resnet50": ("resnet50", {}, 8, 8),
    "vgg16": ("vgg16", {}, 16, 8),
}
IMAGES = ("mlp", "cnn", "resnet18", "resnet50", "vgg16")


def make_data(folder):
    """A small CIFAR-10 of noise and a file of random tokens: speed does not depend on what they show."""
    noise = random.Random(1)
    cifar = folder / "cifar"
    cifar.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        count = 2000 if name != "test_batch" else 100
        rows = (bytes([noise.randrange(10)]) + noise.randbytes(3072) for _ in range(count))
        (cifar / f"{name}.bin").write_bytes(b"".join(rows))
    tokens = (noise.randrange(50257) for _ in range(200000))
    (folder / "tokens.bin").write_bytes(b"".join(t.to_bytes(2, "little") for t in tokens))


def environment(threads, extra=None):
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), **(extra or {})}


def last_json(command, env):
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed: {result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def run_rookery(case, threads, folder):
    model, sizes, batch, steps = CASES[case]
    source = "tales"
    if model == "seq2seq":
        source = "translation"
    elif model in IMAGES:
        source = str(folder / "cifar")
    elif "vocabulary" in sizes:
        source = str(folder / "tokens.bin")
    settings = {"model.kind": model, "data.source": source, "train.batch": batch, "train.steps": steps,
                "train.threads": threads, "train.eval_every": 0, "train.eval_batches": 0,
                "train.checkpoint_every": 0, **{f"model.{k}": v for k, v in sizes.items()}}
    out = folder / "run"
    command = [ROOT / "build/rookery", "train", "--json", "--out", str(out)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    summary = last_json(command, environment(threads))
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seconds = sorted(line["step_seconds"] for line in lines[3:])
    subprocess.run(["rm", "-rf", str(out)], check=True)
    return {"step_seconds": seconds[len(seconds) // 2], "peak_memory_bytes": summary["peak_memory_bytes"],
            "tokens": lines[0]["tokens"], "parameters": summary["parameters"]}


def run_pytorch(case, threads, extra):
    model, sizes, batch, steps = CASES[case]
    command = ["/usr/bin/python3", ROOT / "bench/pytorch_train.py", "--model", model, "--batch", str(batch),
               "--steps", str(steps), "--threads", str(threads)]
    shape = dict(sizes)
    if model == "seq2seq":
        shape.update(SEQ2SEQ_SHAPE)
    for key, value in shape.items():
        command += [f"--{key}", str(value)]
    return last_json(command, environment(threads, extra))


# The built-in translation task pads its sentences to these lengths.
SEQ2SEQ_SHAPE = {"source": 13, "target": 13}


def spread(values, form="{:.2f}"):
    low, middle, high = (form.format(v) for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}–{high})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="also print all numbers as one JSON object")
    args = parser.parse_args()
    print("Times Rookery is faster than PyTorch: median (lowest–highest) of "
          f"{args.repetitions} interleaved repetitions. Samples or tokens per second are medians.\n")
    print("| model | threads | Rookery /s | PyTorch /s | ratio | ratio, PyTorch tuned | peak memory, both |")
    print("|---|---|---|---|---|---|---|")
    everything = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        for threads in args.threads:
            for case in args.models:
                runs = [(run_rookery(case, threads, folder), run_pytorch(case, threads, None),
                         run_pytorch(case, threads, TUNED)) for _ in range(args.repetitions)]
                plain = [b["step_seconds"] / a["step_seconds"] for a, b, _ in runs]
                tuned = [c["step_seconds"] / a["step_seconds"] for a, _, c in runs]
                units = runs[0][0]["tokens"]
                ours = units / statistics.median(a["step_seconds"] for a, _, _ in runs)
                theirs = units / statistics.median(b["step_seconds"] for _, b, _ in runs)
                memory = [max(r[i]["peak_memory_bytes"] for r in runs) / 2**20 for i in (0, 1)]
                print(f"| {case} | {threads} | {ours:,.0f} | {theirs:,.0f} | {spread(plain)} | {spread(tuned)} | "
                      f"{memory[0]:,.0f} / {memory[1]:,.0f} MiB |", flush=True)
                everything.append({"model": case, "threads": threads, "ratios": plain, "ratios_tuned": tuned,
                                   "rookery_per_second": ours, "pytorch_per_second": theirs, "memory_mib": memory,
                                   "parameters": [runs[0][0]["parameters"], runs[0][1]["parameters"]]})
    if args.json:
        print(json.dumps(everything))


if __name__ == "__main__":
    main()
