#!/usr/bin/env python3
"""The simulator: against real swarms, against other ways to form clusters, with real arithmetic, and at scale."""

import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from runs import PROGRAM, ROOT, main, print_table, spread

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def text(value):
    return json.dumps(value) if not isinstance(value, bool) else str(value).lower()


def scenario(settings, peers, links=()):
    """A scenario.toml: settings by their full names, then a table for each peer and link."""
    sections = {}
    for name, value in settings.items():
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = value
    lines = []
    for section in sorted(sections):
        lines += [f"[{section}]"] if section else []
        lines += [f"{key} = {text(value)}" for key, value in sections[section].items()]
    for kind, tables in (("peer", peers), ("link", links)):
        for table in tables:
            lines += [f"[[{kind}]]", *(f"{key} = {text(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def simulate(settings, peers, links=(), may_fail=False):
    """The result of a simulation, and its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "scenario.toml")
        path.write_text(scenario(settings, peers, links))
        result = subprocess.run([PROGRAM, "simulate", path, "--json", "--out", f"{folder}/run"], capture_output=True,
                                text=True, check=False, env=ENVIRONMENT)
        if result.returncode != 0:
            if may_fail:
                return None
            sys.exit(f"{path.read_text()}\nfailed: {result.stderr}")
        lines = pathlib.Path(folder, "run", "metrics.jsonl").read_text().splitlines()
        return json.loads(result.stdout.splitlines()[-1]), [json.loads(line) for line in lines]


def draw(name, charts):
    """A picture among the documents."""
    subprocess.run(["ninja", "-C", ROOT / "build", "plot"], check=True, capture_output=True)
    picture = subprocess.run([ROOT / "build" / "plot"], input=json.dumps(charts), capture_output=True, text=True,
                             check=True).stdout
    (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    (ROOT / "docs" / "pictures" / name).write_text(picture)


MODEL = {"model.layers": 4, "model.width": 128, "model.heads": 4, "model.context": 128, "train.batch": 4,
         "train.threads": 1, "train.steps": 60, "train.eval_batches": 0, "train.checkpoint_every": 0}
STAGES = {"train.micro_batches": 4}

# Settings, what each peer is like, and the links between all of them.
BOTH_WAYS = {
    "allreduce": ({"swarm.clusters": 4, "sync.method": "allreduce"}, 4, {"step_time": "150ms"}, ("100mbit", "5ms")),
    "gossip, 20% jitter": ({"swarm.clusters": 4, "sync.method": "gossip"}, 4, {"step_time": "200ms", "jitter": 0.2},
                           ("200mbit", "10ms")),
    "palsgd": ({"swarm.clusters": 4, "sync.method": "palsgd", "sync.interval": 8, "sync.warmup_steps": 8}, 4,
               {"step_time": "150ms"}, ("50mbit", "20ms")),
    "4 stages, 1f1b": ({"swarm.clusters": 1, "pipeline.schedule": "1f1b",
                        "pipeline.stages": [[0, 2], [2, 3], [3, 4], [4, 6]], **STAGES}, 4, {"step_time": "200ms"},
                       ("100mbit", "2ms")),
    "2 clusters of 2 stages, async, diloco": (
        {"swarm.clusters": 2, "pipeline.schedule": "async", "pipeline.stages": [[0, 3], [3, 6]],
         "sync.method": "diloco", "sync.interval": 10, "sync.warmup_steps": 0, **STAGES}, 4, {"step_time": "200ms"},
        ("100mbit", "5ms")),
}


def reality(bench):
    """Real swarms of processes, and the same in the virtual world"""
    rows = [["configuration", "step, real", "simulated", "simulated / real", "rounds", "payload", "all bytes"]]
    worst = 0
    for name, (settings, count, peer, (bandwidth, latency)) in BOTH_WAYS.items():
        settings = {**MODEL, **settings}
        local = {**{key: str(value) for key, value in settings.items()}, "swarm.peers": count,
                 "network.bandwidth": bandwidth, "network.latency": latency}
        local |= {f"peer.{i}.{key}": value for i in range(count) for key, value in peer.items()}
        runs = [bench.run(seed, local)[0] for seed in bench.seeds]
        copies = []
        for seed in bench.seeds:
            described = [{"name": "peer", "count": count, "network": "datacenter", **peer}]
            links = [{"from": "peer", "to": "peer", "bandwidth": bandwidth, "latency": latency}]
            copies.append(simulate({**settings, "train.seed": seed}, described, links)[0])
        ratios = [copy["measured_step_seconds"] / run["measured_step_seconds"] for run, copy in zip(runs, copies)]
        worst = max(worst, max(abs(ratio - 1) for ratio in ratios))
        same = lambda key: all(run[key] == copy[key] for run, copy in zip(runs, copies))
        rows.append([name, spread((1000 * run["measured_step_seconds"] for run in runs), "{:.1f} ms"),
                     spread((1000 * copy["measured_step_seconds"] for copy in copies), "{:.1f} ms"),
                     spread(ratios), f"{runs[0]['rounds']}, {'the same' if same('rounds') else copies[0]['rounds']}",
                     f"{runs[0]['payload_bytes_sent']}, "
                     f"{'the same' if same('payload_bytes_sent') else copies[0]['payload_bytes_sent']}",
                     spread((copy["bytes_sent"] / run["bytes_sent"] for run, copy in zip(runs, copies)), "{:.4f}")])
    print_table(rows)
    print(f"step time off by {100 * worst:.1f}% at most\n")


def random_swarm(seed):
    """Eight to twenty computers of all kinds, none of which could hold the model with ease."""
    rng = random.Random(seed)
    return [{"name": f"p{i}", "speed": round(math.exp(rng.uniform(math.log(0.25), math.log(4))), 2),
             "memory": f"{rng.randint(150, 900)}MiB", "network": rng.choice(("home-broadband", "campus", "lan"))}
            for i in range(rng.randint(8, 20))]


FORMATION = {"model.layers": 12, "model.width": 512, "model.heads": 8, "model.context": 128, "train.batch": 8,
             "train.micro_batches": 8, "train.threads": 1, "train.steps": 40, "pipeline.schedule": "async",
             "pipeline.weights": "latest", "pipeline.codec": "bf16", "sync.method": "diloco", "sync.interval": 20,
             "sync.warmup_steps": 0, "swarm.goal": "samples", "simulate.step_time": "4s", "simulate.scale": 200}


def formation(_bench):
    """Clusters as planned, by Ravnest's genetic algorithm, and in equal shares: samples/s of 20 random swarms"""
    rows, ratios = [["swarm", "peers", "planned", "ravnest", "equal shares"]], {"ravnest": [], "equal": []}
    for seed in range(1, 21):
        peers = random_swarm(seed)
        rates = {}
        for kind in ("planned", "ravnest", "equal"):
            result = simulate({**FORMATION, "simulate.formation": kind}, peers, may_fail=kind != "planned")
            rates[kind] = result[0]["samples_per_second"] if result else 0
        for kind, values in ratios.items():
            values.append(rates["planned"] / rates[kind] if rates[kind] > 0 else math.inf)
        show = lambda kind: f"{rates[kind]:.2f}" if rates[kind] > 0 else "does not fit"
        rows.append([str(seed), str(len(peers)), show("planned"), show("ravnest"), show("equal")])
        print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)
    for kind, values in ratios.items():
        fitting = [value for value in values if value < math.inf]
        print(f"planned / {kind}: median {statistics.median(fitting):.2f}, {min(fitting):.2f} to {max(fitting):.2f}, of the "
              f"{len(fitting)} swarms that it fits; median of all 20, where it is worth nothing if it does not fit: "
              f"{statistics.median(values):.2f}")
    print()


SPEEDUP = {"model.layers": 2, "model.width": 64, "model.heads": 2, "model.context": 64, "train.batch": 2,
           "train.micro_batches": 2, "train.threads": 1, "train.eval_every": 25, "train.eval_batches": 32,
           "train.schedule": "constant", "train.warmup": 20, "pipeline.schedule": "async", "simulate.compute": "real",
           "simulate.step_time": "100ms", "sync.method": "local-sgd", "sync.interval": 4}


def speedup(_bench, goal=0.6):
    """Virtual time to a fixed loss with 1, 2, 4 and 8 clusters of two peers, with real arithmetic"""
    rows, times = [["clusters", "lr", f"virtual seconds to {goal}", "speed-up"]], {}
    for clusters in (1, 2, 4, 8):
        best = None
        for lr in (1e-3, 2e-3, 4e-3):
            settings = {**SPEEDUP, "swarm.clusters": clusters, "train.lr": lr, "train.steps": 8000 // clusters + 1000,
                        "simulate.until_loss": goal}
            _, lines = simulate(settings, [{"count": 2 * clusters, "network": "lan"}])
            reached = next((line["seconds"] for line in lines if line.get("eval_loss", 9) <= goal), None)
            if reached and (best is None or reached < best[0]):
                best = (reached, lr)
        times[clusters] = best
        rows.append([str(clusters), f"{best[1]:g}" if best else "", f"{best[0]:.1f}" if best else "not reached",
                     f"{times[1][0] / best[0]:.2f}" if best and times[1] else ""])
        print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)
    points = [(clusters, times[1][0] / best[0]) for clusters, best in times.items() if best]
    draw("speedup.svg", [{"title": "Speed-up to a fixed loss", "x": {"label": "clusters"}, "y": {"label": "times one"},
                          "curves": [{"name": "simulated", "points": points},
                                     {"name": "linear", "points": [(n, n) for n, _ in points]}]}])


# Transformer-base on hosts of four GPUs, 25 Gbit/s Ethernet, fixed total batch: milliseconds of a step, as published.
PUBLISHED = {"all-reduce": {8: 166, 16: 196, 32: 189}, "one-peer-exp": {8: 123, 16: 97, 32: 111},
             "alternating-exp-ring": {8: 122, 16: 79, 32: 68}}
GPUS = {"model.heads": 8, "model.context": 64, "train.batch": 4, "train.threads": 1, "train.optimizer": "sgd",
        "train.momentum": 0.0, "train.clip": 0.0, "simulate.scale": 200}
# What is averaged: all of its 65 million gradients; what is exchanged in gossip was fitted.
ARMS = {"all-reduce": {"sync.method": "allreduce", "model.layers": 16, "model.width": 576, "train.steps": 5},
        "one-peer-exp": {"sync.method": "gossip", "sync.topology": "one-peer-exp", "model.layers": 6,
                         "model.width": 552, "train.steps": 40},
        "alternating-exp-ring": {"sync.method": "gossip", "sync.topology": "alternating-exp-ring", "model.layers": 6,
                                 "model.width": 552, "train.steps": 40}}


def published(_bench):
    """Published step times of all-reduce and gossip on 8, 16 and 32 GPUs: by the runtime model and by simulation"""
    rows = [["method", "GPUs", "published", "model", "simulated", "model / published", "simulated / published"]]
    curves, worst = {"published": {}, "by the model": {}, "simulated": {}}, 0
    for name, settings in ARMS.items():
        for gpus, milliseconds in PUBLISHED[name].items():
            peers = [{"name": f"h{h}", "count": 4, "host": f"h{h}", "network": "datacenter", "uplink": "22gbit",
                      "within": "37gbit"} for h in range(gpus // 4)]
            compute = 36 + 688 / gpus
            result, _ = simulate({**GPUS, **settings, "swarm.clusters": gpus,
                                  "simulate.step_time": f"{compute:.1f}ms"}, peers)
            model, simulated = (1000 * result[key] for key in ("predicted_step_seconds", "measured_step_seconds"))
            rows.append([name, str(gpus), f"{milliseconds} ms", f"{model:.0f} ms", f"{simulated:.0f} ms",
                         f"{model / milliseconds:.2f}", f"{simulated / milliseconds:.2f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
            worst = max(worst, abs(model / milliseconds - 1), abs(simulated / milliseconds - 1))
            curves["published"].setdefault(name, []).append((gpus, milliseconds))
            curves["by the model"].setdefault(name, []).append((gpus, model))
            curves["simulated"].setdefault(name, []).append((gpus, simulated))
    print_table(rows)
    print(f"off by {100 * worst:.0f}% at most\n")
    draw("published.svg", [{"title": f"Step time, {title}", "x": {"label": "GPUs", "logarithmic": True},
                            "y": {"label": "ms"},
                            "curves": [{"name": name, "points": points} for name, points in curves[title].items()]}
                           for title in curves])


LARGE = {"model.layers": 12, "model.width": 768, "model.heads": 12, "model.context": 256, "train.batch": 32,
         "train.micro_batches": 4, "train.threads": 1, "train.steps": 100000, "pipeline.schedule": "async",
         "pipeline.weights": "latest", "pipeline.codec": "bf16", "sync.method": "diloco",
         "sync.interval": 8, "sync.warmup_steps": 0, "sync.codec": "bf16",
         "simulate.step_time": "320s", "simulate.scale": 2000, "simulate.time": "1h", "simulate.heartbeat": "1min",
         "simulate.stay": "2h", "simulate.absence": "1min"}


def scale(bench):
    """One virtual hour of home computers that come and go, in clusters of four, and a plan for computers of all kinds"""
    rows = [["peers", "clusters", "wall seconds", "GiB", "events", "lost", "steps", "samples/s", "compute", "rounds",
             "repeated", "failed"]]
    for peers in (40, 200, 1000, 5000):
        begin = time.time()
        result, _ = simulate({**LARGE, "swarm.clusters": peers // 4},
                             [{"count": peers, "network": "home-broadband", "jitter": 0.1}])
        rows.append([str(peers), str(peers // 4), f"{time.time() - begin:.0f}",
                     f"{result['simulation_memory_bytes'] / 2**30:.2f}", f"{result['events'] / 1e6:.2f} M",
                     str(result["peers_lost"]), str(result["steps"]), f"{result['samples_per_second']:.1f}",
                     f"{100 * result['utilisation']:.0f}%", str(result["rounds"]), str(result["rounds_repeated"]),
                     str(result["rounds_failed"])])
        print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)
    plans(bench)


def plans(_bench):
    """A plan for computers of all kinds: how long it takes"""
    rows = [["peers", "seconds for a plan", "clusters"]]
    for peers in (8, 50, 200, 500):
        rng = random.Random(peers)
        tables = [{"name": f"p{i}", "speed": round(math.exp(rng.uniform(-1.4, 1.4)), 2),
                   "memory": f"{rng.randint(300, 3000)}MiB", "network": rng.choice(("home-broadband", "campus", "lan")),
                   "jitter": 0.1} for i in range(peers)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "peers.toml")
            path.write_text(scenario({}, tables))
            command = [PROGRAM, "plan", "--peers", path, "--json", "--set", "model.layers=12", "--set",
                       "model.width=512", "--set", "model.heads=8", "--set", "train.micro_batches=4", "--set",
                       "train.threads=1", "--set", "train.steps=5000"]
            result = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        plan = json.loads(result.stdout.splitlines()[-1])
        rows.append([str(peers), f"{plan['planning_seconds']:.2f}", str(len(plan["clusters"]))])
    print_table(rows)


if __name__ == "__main__":
    main({"reality": reality, "formation": formation, "published": published, "speedup": speedup, "scale": scale,
          "plans": plans},
         __doc__, "simulate.json", seeds=1)
