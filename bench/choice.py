#!/usr/bin/env python3
"""The planner's choice against every fixed one, by the time to a loss.

Eight swarms train the same model with real arithmetic in virtual time: with what the planner chooses, and with every number of
clusters, schedule and method. Virtual time does not depend on what else this computer does, so several run at once.
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
         "train.schedule": "constant", "train.warmup": 20, "train.steps": 3000, "sync.interval": 16,
         "sync.warmup_steps": 32, "simulate.compute": "real", "simulate.step_time": "200ms", "simulate.until_loss": GOAL}


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


def fixed_choices(count):
    """Numbers of clusters, schedules and methods."""
    for clusters in range(1, count + 1):
        for schedule in ("1f1b",) if clusters == count else ("1f1b", "gpipe", "async"):
            for method in ("allreduce", "gossip", "local-sgd", "diloco", "palsgd") if clusters > 1 else ("allreduce",):
                yield {"swarm.clusters": clusters, "pipeline.schedule": schedule, "sync.method": method}


def name_of(choice):
    return f"{choice['swarm.clusters']} x {choice['pipeline.schedule']}, {choice['sync.method']}"


def seconds_to_goal(settings, swarm):
    """Virtual seconds, and what was run; endless if the goal was not reached, or there is no such plan."""
    result = simulate(settings, swarm, may_fail=True)
    if result is None:
        return math.inf, None
    summary, lines = result
    reached = next((line["seconds"] for line in lines if line.get("eval_loss", math.inf) <= GOAL), math.inf)
    plan = {"swarm.clusters": summary["clusters"], "pipeline.schedule": summary["schedule"],
            "sync.method": summary["method"]}
    return reached, plan


def choice(bench):
    """Virtual seconds to a loss with what the planner chooses, and with the best of all fixed choices"""
    rows, worst = [["swarm", "the planner's choice", "seconds", "best fixed choice", "seconds", "chosen / best"]], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, swarm in SWARMS.items():
            own, plan = seconds_to_goal({**MODEL, "train.seed": bench.seeds[0]}, swarm)
            if not math.isfinite(own):
                sys.exit(f"{name}: the planner's choice does not come to a loss of {GOAL}")
            # Whoever is slower than that has lost.
            limit = {"simulate.time": f"{math.ceil(own)}s"}
            others = list(fixed_choices(len(swarm)))
            settings = [{**MODEL, **limit, "train.seed": bench.seeds[0], **other} for other in others]
            times = [seconds for seconds, _ in pool.map(seconds_to_goal, settings, [swarm] * len(others))]
            best, other = min(zip(times, map(name_of, others)))
            best, other = (best, other) if best < own else (own, name_of(plan))
            worst = max(worst, own / best)
            rows.append([name, name_of(plan), f"{own:.0f}", other, f"{best:.0f}", f"{own / best:.2f}"])
            print(f"  {rows[-1]}", file=sys.stderr)
    print_table(rows)
    print(f"slower than the best by {100 * (worst - 1):.0f}% at most\n")


if __name__ == "__main__":
    main({"choice": choice}, __doc__, "choice.json", seeds=1)
