#!/usr/bin/env python3
"""Predicted against measured: what the plan says a step will take, before the first one, and what it took.

Every run measures its peers and links anew. The configurations are every method on swarms that differ in links, peers and
model, and every schedule with several cuts; nothing is left out.
"""

import os
import statistics
import tempfile

from runs import main, print_table, spread

SMALL = {"model.layers": 2, "model.width": 64, "model.heads": 2, "model.context": 64, "train.batch": 8}
MEDIUM = {"model.layers": 4, "model.width": 128, "model.heads": 4, "model.context": 128, "train.batch": 4}
LARGE = {"model.layers": 6, "model.width": 256, "model.heads": 4, "model.context": 64, "train.batch": 4}
SEQ2SEQ = {"model.kind": "seq2seq", "model.layers": 2, "model.width": 128, "model.heads": 4, "data.source": "translation",
           "train.batch": 8}
BASE = {"train.threads": 1, "train.checkpoint_every": 0, "train.eval_batches": 0, "train.steps": 40}


def peers(*speeds, **more):
    swarm = {"swarm.peers": len(speeds), "swarm.clusters": len(speeds)}
    for i, speed in enumerate(speeds):
        swarm[f"peer.{i}.speed"] = speed
        swarm.update({f"peer.{i}.{key}": value for key, value in more.items()})
    return swarm


def links(bandwidth, latency):
    return {"network.bandwidth": bandwidth, "network.latency": latency}


# Two peers at full speed and without shaping: this computer itself.
PAIR = {**peers(1, 1), "train.steps": 300}
# Slowed peers stand for computers of their own: all together need about one of this one's cores, so that they do not wait
# for each other's.
EQUAL = {**peers(0.25, 0.25, 0.25, 0.25), **links("200mbit", "5ms")}
UNEQUAL = {**peers(0.3, 0.12, 0.2, 0.3), **links("100mbit", "20ms")}
VARYING = {**peers(1, 1, 1, 1, step_time="150ms", jitter=0.2), **links("300mbit", "1ms")}
MANY = {**peers(*[1] * 8, step_time="100ms"), **links("50mbit", "10ms")}

ALL_REDUCE = {"sync.method": "allreduce"}
GOSSIP = {"sync.method": "gossip"}
ADAPT = {"sync.method": "gossip", "sync.mode": "atc"}
LOCAL = {"sync.method": "local-sgd", "sync.interval": 8}
DILOCO = {"sync.method": "diloco", "sync.interval": 8, "sync.warmup_steps": 8}
PALSGD = {"sync.method": "palsgd", "sync.interval": 8, "sync.warmup_steps": 8}
STREAMING = {**PALSGD, "sync.codec": "int8", "sync.fragments": 4, "sync.delay": 2}
NONE = {"sync.method": "none"}


def pipe(schedule, clusters, micro_batches=4, **more):
    return {"pipeline.schedule": schedule, "swarm.clusters": clusters, "train.micro_batches": micro_batches, **more}


CONFIGURATIONS = {
    "pair, small, allreduce": {**PAIR, **SMALL, **ALL_REDUCE},
    "pair, medium, allreduce": {**PAIR, **MEDIUM, **ALL_REDUCE},
    "pair, large, gossip": {**PAIR, **LARGE, **GOSSIP},
    "pair, seq2seq, diloco": {**PAIR, **SEQ2SEQ, **DILOCO},
    "equal, small, allreduce": {**EQUAL, **SMALL, **ALL_REDUCE},
    "equal, medium, allreduce": {**EQUAL, **MEDIUM, **ALL_REDUCE},
    "equal, large, allreduce, bf16": {**EQUAL, **LARGE, **ALL_REDUCE, "sync.codec": "bf16"},
    "equal, medium, gossip": {**EQUAL, **MEDIUM, **GOSSIP},
    "equal, large, palsgd": {**EQUAL, **LARGE, **PALSGD},
    "equal, medium, none": {**EQUAL, **MEDIUM, **NONE},
    "unequal, medium, allreduce": {**UNEQUAL, **MEDIUM, **ALL_REDUCE},
    "unequal, medium, gossip": {**UNEQUAL, **MEDIUM, **GOSSIP},
    "unequal, small, gossip, atc": {**UNEQUAL, **SMALL, **ADAPT},
    "unequal, medium, local-sgd": {**UNEQUAL, **MEDIUM, **LOCAL},
    "unequal, large, palsgd, streaming": {**UNEQUAL, **LARGE, **STREAMING},
    "varying, medium, allreduce": {**VARYING, **MEDIUM, **ALL_REDUCE},
    "varying, medium, gossip": {**VARYING, **MEDIUM, **GOSSIP},
    "varying, large, diloco": {**VARYING, **LARGE, **DILOCO},
    "many, medium, allreduce": {**MANY, **MEDIUM, **ALL_REDUCE},
    "many, medium, gossip": {**MANY, **MEDIUM, **GOSSIP},
    "many, large, palsgd, streaming": {**MANY, **LARGE, **STREAMING},
    "equal, large, 4 stages, gpipe": {**EQUAL, **LARGE, **pipe("gpipe", 1)},
    "equal, large, 4 stages, 1f1b": {**EQUAL, **LARGE, **pipe("1f1b", 1)},
    "equal, large, 4 stages, async": {**EQUAL, **LARGE, **pipe("async", 1)},
    "unequal, large, 4 stages, async": {**UNEQUAL, **LARGE, **pipe("async", 1)},
    "unequal, medium, 2 stages, 1f1b, allreduce": {**UNEQUAL, **MEDIUM, **pipe("1f1b", 2, 2), **ALL_REDUCE},
    "equal, large, 2 stages, async, palsgd": {**EQUAL, **LARGE, **pipe("async", 2), **PALSGD},
    "equal, medium, 2 stages, async, gossip": {**EQUAL, **MEDIUM, **pipe("async", 2), **GOSSIP},
    "many, large, 3 and 5 stages, async, palsgd": {**MANY, **LARGE, **pipe("async", "[3, 5]"), **PALSGD},
}


def prediction(bench):
    """What a step was predicted to take, and what it took"""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        results = bench.compare({name: {**BASE, **settings} for name, settings in CONFIGURATIONS.items()},
                                between=lambda: os.system(f"rm -rf {cache}/rookery/profiles"))
    rows, errors, single = [["configuration", "predicted", "measured", "error"]], [], []
    for name, runs in results.items():
        own = [run[0]["predicted_step_seconds"] / run[0]["measured_step_seconds"] - 1 for run in runs]
        errors.append(statistics.median(map(abs, own)))
        single += map(abs, own)
        rows.append([name, spread((1000 * run[0]["predicted_step_seconds"] for run in runs), "{:.1f} ms"),
                     spread((1000 * run[0]["measured_step_seconds"] for run in runs), "{:.1f} ms"),
                     spread((100 * error for error in own), "{:+.1f}%")])
    print_table(rows)
    print(f"{len(errors)} configurations: median error {100 * statistics.median(errors):.1f}%, "
          f"worst {100 * max(errors):.1f}%; of all {len(single)} runs the worst is {100 * max(single):.1f}%\n")


if __name__ == "__main__":
    main({"prediction": prediction}, __doc__, "prediction.json", seeds=3)
