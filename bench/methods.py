#!/usr/bin/env python3
"""Runs local swarms with every method and prints what each costs and reaches: loss, time, bytes.

Each figure is the median over seeds, with the range in brackets. Runs that are compared are made in turns, seed by seed.
Results are kept in a file, and runs that are there are not made again.
"""

import statistics
import sys

from runs import main, print_table, spread

SMALL = {"model.layers": 2, "model.width": 64, "model.heads": 2, "model.context": 64, "train.threads": 1,
         "train.checkpoint_every": 0, "train.eval_every": 0, "train.eval_batches": 64}
# Of the outer step, for runs with few rounds: the usual momentum of 0.9 needs many to get going.
OUTER = {"sync.outer_lr": 1.0, "sync.outer_momentum": 0.5}
METHODS = ("allreduce", "gossip", "local-sgd", "diloco", "palsgd", "none")


def table(bench):
    """Every method on tales with 4 peers: loss, time, bytes at equal samples."""
    samples, warmup, p = 2000, 32, 0.1
    base = {**SMALL, "swarm.peers": 4, "swarm.clusters": 4, "train.batch": 16, "train.steps": samples,
            "train.lr": 0.004, "train.warmup": 50,
            "train.beta2": 0.98, "sync.interval": 16, "sync.warmup_steps": warmup, "sync.pull_probability": p}
    arms = {method: {**base, "sync.method": method} for method in METHODS}
    for method in ("diloco", "palsgd"):
        arms[method].update(OUTER)
    # A pull takes no samples: to see as many as the others, palsgd needs more steps.
    arms["palsgd"]["train.steps"] = round((samples - warmup) / (1 - p)) + warmup
    results = bench.compare(arms)
    reference = [result[0]["eval_loss"] for result in results["allreduce"]]
    rows = [["method", "eval loss", "against allreduce", "distance", "seconds", "MB sent", "rounds", "waiting"]]
    for name, runs in results.items():
        summaries = [result[0] for result in runs]
        rows.append([name, spread(s["eval_loss"] for s in summaries),
                     spread((s["eval_loss"] / r for s, r in zip(summaries, reference))),
                     spread((s["consensus_distance"] for s in summaries), "{:.2g}"),
                     spread((s["wall_seconds"] for s in summaries), "{:.1f}"),
                     spread((s["bytes_sent"] / 1e6 for s in summaries), "{:.0f}"),
                     str(summaries[0]["rounds"]),
                     spread((100 * s["exposed_communication_share"] for s in summaries), "{:.0f}%")])
    print_table(rows)


def accumulation(bench):
    """Decentralized Adam with and without accumulation: 8 peers, local batches of 1 and 2."""
    rows = [["batch", "optimizer", "eval loss", "against adamw"]]
    for batch in (1, 2):
        base = {**SMALL, "swarm.peers": 8, "swarm.clusters": 8, "train.batch": batch, "train.steps": 400, "train.lr": 0.002,
                "sync.method": "gossip", "train.eval_batches": 512 // batch}
        arms = {}
        for beta1 in (0.9, 0.974):
            arms[f"adamw, β1 {beta1}"] = {**base, "train.optimizer": "adamw", "train.beta1": beta1}
            arms[f"accum-adamw, τ 4, β1 {beta1}"] = {**base, "train.optimizer": "accum-adamw", "train.accumulate": 4,
                                                     "train.beta1": beta1}
        results = bench.compare(arms)
        reference = [result[0]["eval_loss"] for result in results["adamw, β1 0.9"]]
        for name, runs in results.items():
            losses = [result[0]["eval_loss"] for result in runs]
            rows.append([str(batch), name, spread(losses), spread(l / r for l, r in zip(losses, reference))])
    print_table(rows)


def intervals(bench):
    """Loss against the interval: palsgd, diloco and the control arms, at equal steps and at equal samples."""
    steps, warmup, p = 512, 32, 0.1
    base = {**SMALL, "swarm.peers": 4, "swarm.clusters": 4, "train.batch": 4, "train.lr": 0.002, "sync.warmup_steps": warmup,
            "sync.pull_probability": p}
    longer = round((steps - warmup) / (1 - p)) + warmup
    rows = [["H", "diloco", "palsgd, equal steps", "palsgd, equal samples", "skip only, equal steps",
             "skip only, equal samples", "pull in every step"]]
    for interval in (16, 32, 64, 128, 256):
        at = {**base, "sync.interval": interval, "train.steps": steps}
        pals = {**at, "sync.method": "palsgd"}
        skip = {**pals, "sync.pull_strength": 0}
        arms = {"diloco": {**at, "sync.method": "diloco"}, "palsgd": pals, "palsgd long": {**pals, "train.steps": longer},
                "skip": skip, "skip long": {**skip, "train.steps": longer},
                "every step": {**pals, "sync.pull": "every-step"}}
        print(f"H = {interval}", file=sys.stderr)
        results = bench.compare(arms)
        rows.append([str(interval)] + [spread(result[0]["eval_loss"] for result in results[name]) for name in arms])
    print_table(rows)


# Peers pretend to be slower than they are, all alike, and take less than one and a half of two cores together: it is the
# methods that are measured, not the machine.
def slowed(milliseconds):
    return {f"peer.{i}.step_time": f"{milliseconds}ms" for i in range(4)}


PARAMETERS = 124_672  # of SMALL with its context of 64


def own_seconds(result):
    """Time that a peer has spent in steps, evaluations apart: after each step, mean over peers."""
    total, times = 0, []
    for line in result[1]:
        total += line["compute_seconds"] + line["wait_seconds"]
        times.append(total)
    return times


def swarm_step(result):
    """Time in which the whole swarm does a step, the first third apart: peers learn their pace there."""
    lines = result[1][len(result[1]) // 3:]
    return (lines[-1]["seconds"] - lines[0]["seconds"]) / (len(lines) - 1)


def waiting(result):
    """The share of its time in which a peer waits for others, the same steps apart."""
    lines = result[1][len(result[1]) // 3:]
    waited, worked = (sum(line[key] for line in lines) for key in ("wait_seconds", "compute_seconds"))
    return 100 * waited / (waited + worked)


def time_to(result, loss):
    """When an evaluation reached this loss, between two evaluations by interpolation; None if none has."""
    times, before = own_seconds(result), None
    for line, seconds in zip(result[1], times):
        if "eval_loss" not in line:
            continue
        if line["eval_loss"] <= loss:
            if before is None:
                return seconds
            share = (before[1] - loss) / (before[1] - line["eval_loss"])
            return before[0] + share * (seconds - before[0])
        before = (seconds, line["eval_loss"])
    return None


def bytes_a_step(result, warmup):
    """What all peers send in a step after the warm-up."""
    lines = result[1][warmup:]
    return sum(line["bytes_sent"] for line in lines) / len(lines)


def race(bench, arms, warmup):
    results = bench.compare(arms)
    rows = [["method", "eval loss", "waiting", "time", "time to allreduce's loss, as a share of its time",
             "bytes a step after warm-up, as a share of its"]]
    for name, runs in results.items():
        shares, traffic = [], []
        for run, reference in zip(runs, results["allreduce"]):
            reached = time_to(run, reference[0]["eval_loss"])
            shares.append(float("inf") if reached is None else reached / own_seconds(reference)[-1])
            traffic.append(bytes_a_step(run, warmup) / bytes_a_step(reference, warmup))
        rows.append([name, spread(r[0]["eval_loss"] for r in runs),
                     spread((100 * r[0]["exposed_communication_share"] for r in runs), "{:.0f}%"),
                     spread((own_seconds(r)[-1] for r in runs), "{:.1f} s"), spread(shares), spread(traffic, "{:.4f}")])
    print_table(rows)


def shaped(bench):
    """Links on which allreduce waits for a quarter of its time: who is first at allreduce's last loss?"""
    base = {**SMALL, **slowed(110), "swarm.peers": 4, "swarm.clusters": 4, "train.batch": 32, "train.steps": 200,
            "train.lr": 0.002,
            "train.eval_every": 10, "network.latency": "1ms"}
    low, high = 20.0, 2000.0  # mbit; the share falls as the links get faster
    while high / low > 1.15:
        middle = (low * high) ** 0.5
        trial = bench.run(0, {**base, "network.bandwidth": f"{middle:.0f}mbit", "sync.method": "allreduce",
                              "train.steps": 30, "train.eval_every": 0})
        share = trial[0]["exposed_communication_share"]
        print(f"  at {middle:.0f} mbit allreduce waits for {100 * share:.0f}% of its time", file=sys.stderr)
        low, high = (middle, high) if share > 0.25 else (low, middle)
    base["network.bandwidth"] = f"{(low * high) ** 0.5:.0f}mbit"
    print(f"Links of {base['network.bandwidth']} and 1 ms.\n")
    local = {**base, **OUTER, "sync.interval": 24, "train.steps": 240}
    race(bench, {"allreduce": {**base, "sync.method": "allreduce"}, "diloco": {**local, "sync.method": "diloco"},
                 "palsgd": {**local, "sync.method": "palsgd"}}, 32)


def slow(bench):
    """Links of 10 Mbit/s and 40 ms: streaming palsgd with int8 against allreduce."""
    base = {**SMALL, **slowed(55), "swarm.peers": 4, "swarm.clusters": 4, "train.batch": 16, "train.steps": 80, "train.lr": 0.002,
            "train.eval_every": 10, "network.bandwidth": "10mbit", "network.latency": "40ms"}
    streaming = {**base, **OUTER, "sync.method": "palsgd", "sync.interval": 24, "sync.warmup_steps": 8,
                 "sync.fragments": 3, "sync.delay": 6, "sync.merge": 0.5, "sync.codec": "int8", "train.steps": 200}
    race(bench, {"allreduce": {**base, "sync.method": "allreduce"}, "palsgd, streaming, int8": streaming}, 8)


def hidden(bench):
    """Gossip hides its communication, and absorbs jitter."""
    base = {**SMALL, **slowed(60), "swarm.peers": 4, "swarm.clusters": 4, "train.batch": 8, "train.steps": 100,
            "train.eval_batches": 1}
    compute = 0.060
    exchanged = 8 * 4 * PARAMETERS  # bits that a peer sends in a step
    rows = [["communication / compute", "links", "none", "gossip", "gossip / none", "allreduce / none", "gossip waits",
             "allreduce waits"]]
    for share in (0.2, 0.5, 0.8):
        links = {"network.bandwidth": f"{exchanged / (share * compute) / 1e6:.0f}mbit"}
        arms = {m: {**base, **links, "sync.method": m} for m in ("none", "gossip", "allreduce")}
        results = bench.compare(arms)
        times = {name: [swarm_step(run) for run in runs] for name, runs in results.items()}
        rows.append([str(share), links["network.bandwidth"],
                     *(spread((1000 * t for t in times[m]), "{:.1f} ms") for m in ("none", "gossip")),
                     *(spread(t / n for t, n in zip(times[m], times["none"])) for m in ("gossip", "allreduce")),
                     *(spread((waiting(r) for r in results[m]), "{:.1f}%") for m in ("gossip", "allreduce"))])
    print_table(rows)
    links = {"network.bandwidth": f"{exchanged / (0.2 * compute) / 1e6:.0f}mbit"}
    jitter = {f"peer.{i}.jitter": 0.2 for i in range(4)}
    arms = {}
    for method in ("none", "gossip", "allreduce"):
        arms[method] = {**base, **links, "sync.method": method}
        arms[f"{method}, jitter"] = {**arms[method], **jitter}
    results = bench.compare(arms)
    times = {name: [swarm_step(run) for run in runs] for name, runs in results.items()}
    rows = [["method", "step", "step with 20% jitter", "grows by", "waits", "waits with jitter"]]
    for method in ("none", "gossip", "allreduce"):
        rows.append([method, *(spread((1000 * t for t in times[name]), "{:.1f} ms") for name in (method, f"{method}, jitter")),
                     spread((100 * (b / a - 1) for a, b in zip(times[method], times[f"{method}, jitter"])), "{:.1f}%"),
                     *(spread((waiting(r) for r in results[name]), "{:.1f}%") for name in (method, f"{method}, jitter"))])
    print_table(rows)


PARTS = {"table": table, "shaped": shaped, "slow": slow, "hidden": hidden, "accumulation": accumulation,
         "intervals": intervals}


if __name__ == "__main__":
    main(PARTS, __doc__, "methods.json", seeds=5)
