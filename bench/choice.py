#!/usr/bin/env python3
"""The planner's choice against fixed ones, by the time to a loss.

Eight swarms train the same model with real arithmetic: with what the planner chooses, and with other numbers of clusters,
schedules and methods. Virtual time does not depend on what else this computer does, so several run at once.
"""

import concurrent.futures
import math
import os
import sys

from runs import main, print_table
from simulate import simulate

GOAL = 1.0
MODEL = {"model.layers": 3, "model.width": 64, "model.heads": 2, "model.context": 64, "train.batch": 8,
         "train.micro_batches": 4, "train.threads": 1, "train.eval_every": 10, "train.eval_batches": 8,
         "train.schedule": "constant", "train.warmup": 20, "train.steps": 3000,
         "sync.warmup_steps": 32, "simulate.compute": "real", "simulate.step_time": "200ms",
         "simulate.until_loss": GOAL}


def peers(speeds, **more):
    return [{"name": f"p{i}", "speed": speed, **more} for i, speed in enumerate(speeds)]


SWARMS = {
    "4 equal, datacenter": peers([1] * 4, network="datacenter"),
    "4 equal, lan": peers([1] * 4, network="lan"),
    "4 equal, campus, 20% jitter": peers([1] * 4, network="campus", jitter=0.2),
    "4 equal, transatlantic": peers([1] * 4, network="transatlantic"),
    "4 unequal, lan": peers([2, 1, 1, 0.5], network="lan"),
    "4 unequal, home-broadband": peers([2, 1, 1, 0.5], network="home-broadband"),
    "3 equal, home-broadband, 20% jitter": peers([1] * 3, network="home-broadband", jitter=0.2),
    "6 with little memory, campus": peers([1, 1, 1, 1, 0.5, 0.5], network="campus", memory="6MiB"),
}


# What leaves a computer of a network, and the way from one to another (docs/runtime-model.md).
LINKS = {"datacenter": ("25gbit", "40us"), "lan": ("1gbit", "200us"), "campus": ("500mbit", "2ms"),
         "transatlantic": ("100mbit", "44ms"), "home-broadband": ("20mbit", "16ms")}


def own_memory(bench):
    """Bytes that a process with a limit takes before it holds any layer."""
    model = {key: value for key, value in MODEL.items() if not key.startswith("simulate.")}
    summary = bench.run(1, {**model, "train.steps": 2, "swarm.peers": 2, "swarm.clusters": 2, "peer.0.memory": "8GiB",
                            "peer.1.memory": "8GiB"})[0]
    return max(peer["own_memory_bytes"] for peer in summary["peers"])


def step_here(bench):
    """Seconds that a step of the whole model takes on this computer."""
    model = {key: value for key, value in MODEL.items() if not key.startswith("simulate.")}
    return bench.run(1, {**model, "train.steps": 100, "train.eval_every": 0})[0]["measured_step_seconds"]


def processes(bench, swarm):
    """Settings of a real swarm on this computer that is like one of the virtual world: peers so much slower than it."""
    bandwidth, latency = LINKS[swarm[0]["network"]]
    settings = {"swarm.peers": len(swarm), "network.bandwidth": bandwidth, "network.latency": latency}
    for i, peer in enumerate(swarm):
        settings[f"peer.{i}.speed"] = round(peer["speed"] * step_here(bench) / 0.2, 4)
        if "jitter" in peer:
            settings[f"peer.{i}.jitter"] = peer["jitter"]
        if "memory" in peer:  # besides the program, and what links and fragmentation take (train/arrange.cc)
            layers = float(peer["memory"].removesuffix("MiB")) * 2**20
            limit = own_memory(bench) + (layers + 3 * 2**20 * (len(swarm) - 1)) / 0.95
            settings[f"peer.{i}.memory"] = f"{math.ceil(limit)}B"
    return settings


LOCAL = ("local-sgd", "diloco", "palsgd")


def fixed_choices(count, intervals=(8, 32)):
    """Numbers of clusters, schedules and methods, the local ones with these intervals."""
    for clusters in range(1, count + 1):
        for schedule in ("1f1b",) if clusters == count else ("1f1b", "gpipe", "async"):
            choice = {"swarm.clusters": clusters, "pipeline.schedule": schedule}
            if clusters == 1:
                yield {**choice, "sync.method": "allreduce"}
                continue
            yield from ({**choice, "sync.method": method} for method in ("allreduce", "gossip"))
            yield from ({**choice, "sync.method": method, "sync.interval": interval}
                        for method in LOCAL for interval in intervals)


def near_choices(plan, count):
    """Those that differ from a plan in one thing; a cluster of one has no schedule, one cluster no method, and a method
    that the plan does not have has the usual interval."""
    def differs(other, key, clusters):
        return plan[key] != other[key] and clusters not in (plan["swarm.clusters"], other["swarm.clusters"])

    def interval_differs(other):
        interval = other.get("sync.interval")
        return interval and interval != (plan["sync.interval"] if plan["sync.method"] == other["sync.method"] else 32)

    for other in fixed_choices(count, (8, 16, 32, 64, 128)):
        if 1 == ((plan["swarm.clusters"] != other["swarm.clusters"]) + differs(other, "pipeline.schedule", count)
                 + differs(other, "sync.method", 1) + bool(interval_differs(other))):
            yield other


def name_of(choice):
    often = f" every {choice['sync.interval']}" if choice.get("sync.interval") else ""
    return f"{choice['swarm.clusters']} x {choice['pipeline.schedule']}, {choice['sync.method']}{often}"


def at_goal(lines):
    """Seconds and steps to the goal; endless if it was not reached."""
    return next(((line["seconds"], line["step"]) for line in lines if line.get("eval_loss", math.inf) <= GOAL),
                (math.inf, math.inf))


def in_steps(lines):
    """Seconds of steps to the goal: without those of evaluations, which take none in virtual time."""
    seconds = 0
    for line in lines:
        seconds += line["compute_seconds"] + line["wait_seconds"]
        if line.get("eval_loss", math.inf) <= GOAL:
            return seconds
    return math.inf


def plan_of(summary):
    plan = {"swarm.clusters": summary["clusters"], "pipeline.schedule": summary["schedule"],
            "sync.method": summary["method"]}
    return plan | ({"sync.interval": summary["interval"]} if "interval" in summary else {})


def virtual_seconds(settings, swarm):
    """To the goal, steps to it, and what was run; endless if the goal was not reached, or there is no such plan."""
    result = simulate(settings, swarm, may_fail=True)
    return (math.inf, math.inf, None) if result is None else (*at_goal(result[1]), plan_of(result[0]))


def compare(bench, pool, name, choices):
    """What the planner chooses, its virtual seconds and steps, and others with theirs, fastest first; made once."""
    key = f"{name}, {choices.__name__}"
    if key not in bench.known:
        bench.keep(key, compare_anew(bench, pool, name, choices))
    return bench.known[key]


def compare_anew(bench, pool, name, choices):
    swarm, model = SWARMS[name], {**MODEL, "train.seed": bench.seeds[0]}
    own, steps, plan = virtual_seconds(model, swarm)
    if not math.isfinite(own):
        sys.exit(f"{name}: the planner's choice does not come to a loss of {GOAL}")
    others = list(choices(plan, len(swarm)))
    # Whoever is slower than that has lost.
    settings = [{**model, "simulate.time": f"{math.ceil(1.1 * own)}s", **other} for other in others]
    results = [result[:2] for result in pool.map(virtual_seconds, settings, [swarm] * len(others))]
    return (own, steps, plan), sorted(((*result, other) for result, other in zip(results, others)),
                                      key=lambda one: one[:2])


def table(bench, choices):
    rows, worst = [["swarm", "the planner's choice", "seconds", "best fixed choice", "seconds", "chosen / best"]], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in SWARMS:
            (own, _, plan), others = compare(bench, pool, name, choices)
            best, _, other = others[0] if others[0][0] < own else (own, None, plan)
            worst = max(worst, own / best)
            rows.append([name, name_of(plan), f"{own:.1f}", name_of(other), f"{best:.1f}", f"{own / best:.2f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)
    print(f"slower than the best by {100 * (worst - 1):.0f}% at most\n")


def choice(bench):
    """Virtual seconds to a loss with what the planner chooses, and with the best of all fixed choices"""
    def all_choices(_, count):
        return fixed_choices(count)

    table(bench, all_choices)


def near(bench):
    """The same, but only with fixed choices that differ from the planner's in one thing; much quicker"""
    table(bench, near_choices)


def real(bench, rivals=1):
    """What the planner chooses for real swarms of processes, and the best near choices in virtual time"""
    def row(name):
        swarm = SWARMS[name]
        (own, steps, plan), others = compare(bench, pool, name, near_choices)
        model = {key: value for key, value in MODEL.items() if not key.startswith("simulate.")}
        model |= processes(bench, swarm)

        def run(steps, choice):
            for share in (0.13, 0.2):  # of the steps in virtual time, tens
                summary, lines, _, _ = bench.run(bench.seeds[0], {**model, "train.steps": 10 * math.ceil(share * steps),
                                                                  **choice})
                if math.isfinite(in_steps(lines)):
                    break
            return in_steps(lines), plan_of(summary)

        took, chosen = run(steps, {})
        as_virtual = [] if chosen == plan else [(own, steps, plan)]
        tried = [(seconds, other, run(steps, other)[0]) for seconds, steps, other in [*as_virtual, *others][:rivals]
                 if math.isfinite(seconds)]
        best = min([took, *(seconds for _, _, seconds in tried)])
        found = [name, name_of(chosen), f"{took:.1f}", f"{own:.1f}" if chosen == plan else name_of(plan),
                 "; ".join(name_of(other) for _, other, _ in tried),
                 "; ".join(f"{seconds:.1f}" for _, _, seconds in tried),
                 "; ".join(f"{seconds:.1f}" for seconds, _, _ in tried), f"{took / best:.2f}"]
        print(f"  {found}", file=sys.stderr)
        return found

    with (concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
          concurrent.futures.ThreadPoolExecutor(2) as swarms):  # which compute for a tenth of their time
        rows = list(swarms.map(row, SWARMS))
    print_table([["swarm", "the planner's choice", "seconds", "virtual", "others", "seconds", "virtual", "chosen / best"],
                 *rows])


def topologies(bench):
    """Samples to a loss by the topology of gossip, on four and eight equal peers"""
    names = ("complete", "one-peer-exp", "ring")
    rows = [["clusters", *names]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for clusters in (4, 8):
            base = {**MODEL, "train.seed": bench.seeds[0], "swarm.clusters": clusters, "sync.method": "gossip"}
            found = pool.map(lambda name: samples_to_goal({**base, "sync.topology": name}, clusters), names)
            rows.append([str(clusters), *(f"{count:,}" for count in found)])
    print_table(rows)


def samples_to_goal(settings, clusters):
    lines = simulate(settings, peers([1] * clusters, network="lan"))[1]
    return next((line["samples"] for line in lines if line.get("eval_loss", math.inf) <= GOAL), math.inf)


def intervals(bench):
    """Samples to a loss by the interval of local methods, on two and four equal peers"""
    lengths = (8, 16, 32, 64, 128)
    rows = [["method", "clusters", *(f"H = {length}" for length in lengths)]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for method in ("local-sgd", "diloco", "palsgd"):
            for clusters in (2, 4):
                base = {**MODEL, "train.seed": bench.seeds[0], "swarm.clusters": clusters, "sync.method": method}
                found = pool.map(lambda length: samples_to_goal({**base, "sync.interval": length}, clusters), lengths)
                rows.append([method, str(clusters), *(f"{count:,}" for count in found)])
                print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)


if __name__ == "__main__":
    main({"choice": choice, "near": near, "real": real, "intervals": intervals,
          "topologies": topologies}, __doc__, "choice.json", seeds=1)
