#!/usr/bin/env python3
"""Runs Rookery's allreduce and PyTorch's DistributedDataParallel (Gloo) in turns, and prints how many times faster
Rookery's steps are.

Every peer has a network namespace, all on one bridge; what it sends passes a token bucket (tc tbf) if links are shaped.
A ratio is taken within a repetition; the table shows the median and the range. Rookery runs without encryption, as Gloo
does; the last column says what encryption costs it.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRIDGE, NETWORK = "rkbench", "10.87.0"
CASES = {
    "gpt-128x8": (dict(layers=8, width=128, heads=8, context=256), 4, 25),
    "gpt-256x6": (dict(layers=6, width=256, heads=8, context=128), 4, 25),
}
LINKS = {"fast": None, "1gbit": "1gbit", "100mbit": "100mbit"}


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


class Network:
    """Namespaces on a bridge. Leaves nothing behind."""

    def __init__(self, peers, rate):
        self.peers = peers
        self.remove()
        sh(f"ip link add {BRIDGE} type bridge && ip addr add {NETWORK}.254/24 dev {BRIDGE} && ip link set {BRIDGE} up")
        for i in range(peers):
            space, outer = self.space(i), f"{BRIDGE}{i}"
            sh(f"ip netns add {space} && ip link add {outer} type veth peer name eth0 netns {space} && "
               f"ip link set {outer} master {BRIDGE} up && "
               f"ip -n {space} addr add {NETWORK}.{i + 1}/24 dev eth0 && ip -n {space} link set eth0 up && "
               f"ip -n {space} link set lo up")
            if rate:
                # A bucket of a few milliseconds, and a queue as long as a home router's.
                sh(f"tc -n {space} qdisc add dev eth0 root tbf rate {rate} burst 256kb latency 100ms")

    @staticmethod
    def space(i):
        return f"{BRIDGE}-{i}"

    @staticmethod
    def remove():
        for line in sh("ip netns list").stdout.splitlines():
            if line.startswith(f"{BRIDGE}-"):
                sh(f"ip netns delete {line.split()[0]}", check=False)
        sh(f"ip link delete {BRIDGE}", check=False)

    def start(self, i, command, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.space(i), *map(str, command)], **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def environment(extra=None):
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(extra or {})}


def finish(processes):
    """Waits for all; when one fails, the others are of no use."""
    try:
        for process in processes:
            if process.wait(timeout=600) != 0:
                sys.exit(f"{process.args} failed")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def middle(seconds):
    return statistics.median(seconds[5:])


def run_rookery(network, case, text, folder, plain=True):
    sizes, batch, steps = CASES[case]
    settings = {"data.source": text, "train.batch": batch, "train.steps": steps, "train.threads": 1,
                "train.eval_every": 0, "train.eval_batches": 0, "train.checkpoint_every": 0, "sync.method": "allreduce",
                "swarm.peers": network.peers, "swarm.clusters": network.peers, **{f"model.{k}": v for k, v in sizes.items()}}
    run = folder / "run"
    command = [ROOT / "build/rookery", "coordinate", "--listen", f"{NETWORK}.254:0", "--out", run]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    options = dict(env=environment({"XDG_CACHE_HOME": str(folder / "cache")}), stderr=subprocess.DEVNULL)
    flags = ["--plain"] if plain else []
    coordinator = subprocess.Popen([*map(str, command), *flags], stdout=subprocess.PIPE, text=True, **options)
    ticket = coordinator.stdout.readline().split()[2]
    peers = [network.start(i, [ROOT / "build/rookery", "join", ticket, "--name", f"peer-{i}", *flags],
                           stdout=subprocess.DEVNULL, **options) for i in range(network.peers)]
    finish([coordinator, *peers])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    subprocess.run(["rm", "-rf", run], check=True)
    return middle([line["step_seconds"] for line in lines])


def run_ddp(network, case, text):
    sizes, batch, steps = CASES[case]
    command = ["/usr/bin/python3", ROOT / "bench/pytorch_train.py", "--text", text, "--batch", batch, "--steps", steps,
               "--peers", network.peers, "--eval_samples", 1]
    for key, value in sizes.items():
        command += [f"--{key}", value]
    env = environment({"MASTER_ADDR": f"{NETWORK}.1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "eth0"})
    peers = [network.start(i, [*command, "--rank", i], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           env=env) for i in range(network.peers)]
    outputs = [peer.stdout.read() for peer in peers]
    finish(peers)
    return max(json.loads(output.splitlines()[-1])["step_seconds"] for output in outputs)


def spread(values, form="{:.2f}"):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}–{form.format(max(values))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--links", nargs="*", default=list(LINKS), choices=list(LINKS))
    parser.add_argument("--peers", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("vs_ddp: network namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the network is removed
    print(f"Times Rookery's steps are faster than DDP's: median (lowest–highest) of {args.repetitions} interleaved "
          "repetitions.\n")
    print("| model | peers | links | Rookery ms | DDP ms | ratio | encrypted ms |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = folder / "tales.txt"
        words = random.Random(1)
        text.write_text(" ".join(words.choice(("owl", "rook", "nest", "sings", "of", "the", "a", "tall", "old", "tree"))
                                 for _ in range(400_000)))
        for case in args.models:
            for peers in args.peers:
                for links in args.links:
                    runs = []
                    with Network(peers, LINKS[links]) as network:
                        for _ in range(args.repetitions):
                            runs.append((run_rookery(network, case, text, folder), run_ddp(network, case, text),
                                         run_rookery(network, case, text, folder, plain=False)))
                    ratio = spread([ddp / rookery for rookery, ddp, _ in runs])
                    ours, theirs, secret = (spread([1000 * r[i] for r in runs], "{:.0f}") for i in range(3))
                    print(f"| {case} | {peers} | {links} | {ours} | {theirs} | {ratio} | {secret} |", flush=True)


if __name__ == "__main__":
    main()
