#!/usr/bin/env python3
"""What failures cost: real processes are killed and frozen while they train, others come, and some lie."""

import itertools
import statistics
import subprocess
import sys

from runs import main, print_table, spread

SMALL = {"model.layers": 4, "model.width": 64, "model.heads": 2, "model.context": 64, "train.batch": 4,
         "train.micro_batches": 2, "train.threads": 1, "train.checkpoint_every": 0, "train.eval_batches": 4}


def peers(count, **more):
    swarm = {"swarm.peers": count, "swarm.clusters": count}
    for i, (key, value) in itertools.product(range(count), more.items()):
        swarm[f"peer.{i}.{key}"] = value
    return swarm


# 2400 steps of a quarter of a second: ten minutes.
LONG = {**SMALL, **peers(8, step_time="250ms"), "train.steps": 2400, "train.eval_every": 100, "train.eval_batches": 64}
DILOCO = {"sync.method": "diloco", "sync.interval": 8, "sync.warmup_steps": 8}
MIXED = "[2, 2, 1, 1, 1, 1]"
SWARMS = {
    "8 alone, allreduce": {**LONG, "sync.method": "allreduce"},
    "8 alone, diloco": {**LONG, **DILOCO},
    "2 × 2 stages and 4 alone, diloco": {**LONG, **DILOCO, "swarm.clusters": MIXED, "pipeline.schedule": "1f1b"},
}
CHAOS = ("--chaos", "kill 0.05/s, freeze 0.05/s, rejoin 5s, thaw 10s")


def loss_at(lines, samples):
    """The loss of an evaluation after so many samples, between the two that are nearest."""
    known = [(line["samples"], line["eval_loss"]) for line in lines if "eval_loss" in line]
    for (left, before), (right, after) in itertools.pairwise(known):
        if left <= samples <= right:
            return before + (after - before) * (samples - left) / (right - left)
    return known[-1][1] if samples > known[-1][0] else known[0][1]


def blows_of(run):
    return [event for event in run[3] if event["event"] == "chaos" and event["text"].startswith("is ")]


def is_in(process, peer):
    """Whether a peer is part of a process: whoever stands in for others is called after it."""
    return peer == process or peer.rsplit("-", 1)[0] == process


def clusters_of(run):
    """By name. Of peers that had several places, the last; where each has a cluster of its own, they are in order."""
    return {peer["name"]: peer.get("cluster", i) for i, peer in enumerate(run[0]["peers"])}


def recoveries(run):
    """For each blow, the seconds until all who trained then have done a step that began after it, the rest of the cluster
    that was hit among them. But for those who were hit themselves, or lost with others of their cluster: who was lost
    and not hit had to wait, too."""
    _, _, lines, events = run
    blows, clusters, lost = blows_of(run), clusters_of(run), {}
    for event in filter(lambda event: event["event"] == "lost", events):
        lost.setdefault(event["peer"], []).append(event["seconds"])

    def was_harmed(name, begin, end):
        is_lost = any(begin < when < end for when in lost.get(name, []))
        return any(is_in(blow["peer"], name) or (is_lost and clusters.get(blow["peer"], -1) == clusters.get(name))
                   for blow in blows if begin < blow["seconds"] < end)

    found = []
    for at in (blow["seconds"] for blow in blows):
        waited = []
        for name, own in lines.items():
            before = [line["seconds"] for line in own if line["seconds"] <= at]
            after = [line["seconds"] for line in own if line["seconds"] > at]
            trained = before and at - before[-1] < 1.5 and len(after) > 1
            if trained and not was_harmed(name, before[-1] - 1.5, after[1]):
                waited.append(after[1] - at)
        found += [max(waited)] if waited else []
    return found


def steps_lost(run):
    """Steps of single clusters, per blow, whose work was lost, and the most at once; and those that they left out."""
    summary, blows = run[0], len(blows_of(run))
    lengths = lambda name: [own["last_step"] - own["first_step"] + 1 for own in summary.get(name, [])]
    lost = [*lengths("forgotten"), *lengths("repeated")]
    return sum(lost) / max(1, blows), max(lost, default=0), sum(lengths("left_out")) / max(1, blows)


def chaos(bench):
    """A kill or a freeze every ten seconds for ten minutes, and everybody comes again"""
    rows = [["swarm", "blows", "lost", "loss", "undisturbed, at as many samples", "ratio",
             "until all others train again: median", "worst", "within ten seconds",
             "steps of a cluster that were lost, per blow", "at most", "and left out, per blow"]]
    for name, settings in SWARMS.items():
        for seed in bench.seeds:
            hit = bench.run(seed, settings, (*CHAOS, "--chaos-seed", str(seed)))
            # What is learnt does not depend on the time that steps take.
            calm = bench.run(seed, {key: value for key, value in settings.items() if not key.endswith("step_time")})
            loss, wanted = hit[0]["eval_loss"], loss_at(calm[1], hit[1][-1]["samples"])
            waited = recoveries(hit)
            lost = sum(event["event"] == "lost" for event in hit[3])
            rows.append([name, str(len(blows_of(hit))), str(lost), f"{loss:.3f}", f"{wanted:.3f}", f"{loss / wanted:.3f}",
                         f"{statistics.median(waited):.1f} s", f"{max(waited):.1f} s",
                         f"{sum(seconds < 10 for seconds in waited)} of {len(waited)}",
                         *"{:.1f} {} {:.1f}".format(*steps_lost(hit)).split()])
    print_table(rows)


def restorations(run):
    """From when to when somebody was handed what belongs to its place."""
    begun = {}
    for event in run[3]:
        if event["event"] == "restores":
            begun[event["peer"]] = event["seconds"]
        elif event["event"] == "restored" and event["peer"] in begun:
            yield begun.pop(event["peer"]), event["seconds"]


def slowdowns(run, begin, end):
    """Of each peer that trained before and meanwhile."""
    for own in run[2].values():
        before = [line["step_seconds"] for line in own if begin - 15 < line["seconds"] <= begin]
        meanwhile = [line["step_seconds"] for line in own if begin < line["seconds"] <= end]
        if before and meanwhile:
            yield statistics.mean(meanwhile) / statistics.mean(before)


def touch_memory(gibibytes):
    """A virtual machine's memory is given to it when it is used for the first time, which takes seconds for a gigabyte.
    Whoever measures what is copied wants to have that behind it."""
    script = f"memory = bytearray({gibibytes} << 30)\nmemory[::4096] = bytes(len(memory[::4096]))"
    subprocess.run([sys.executable, "-c", script], check=True)


def newcomer(bench):
    """Somebody new gets a model of 200 MB from one peer, and from three, over links of 100 Mbit/s"""
    # After the first step all have agreed on a model, which is what is handed on; no further round falls into it, so that
    # what others lose is what giving costs them.
    large = {**SMALL, "model.layers": 4, "model.width": 1024, "model.heads": 8, "model.context": 16, "train.batch": 1,
             "train.micro_batches": 1, "train.eval_batches": 0, "train.steps": 30, "network.bandwidth": "100mbit",
             "network.latency": "5ms", "sync.method": "diloco", "sync.interval": 200, "sync.warmup_steps": 1}
    rows, medians = [["donors", "times", "time", "others' step meanwhile / before"]], []
    for donors in (1, 3):
        took, slower = [], []
        for seed in bench.seeds:
            settings = {**large, **peers(donors + 1, step_time="4s")}
            blows = f"kill {donors} at 60s, kill {donors} at 105s, rejoin 1s"  # the first step takes up to half a minute
            touch_memory(4 + 2 * donors)
            run = bench.run(seed, settings, ("--chaos", blows))
            for begin, end in restorations(run):
                took.append(end - begin)
                slower += slowdowns(run, begin, end)
        medians.append(statistics.median(took))
        rows.append([str(donors), str(len(took)), spread(took, "{:.1f} s"), spread(slower, "{:.2f}")])
    print_table(rows)
    print(f"from three {medians[0] / medians[1]:.1f} times as fast as from one\n")


def cost_of_copies(run, every, after=10):
    """What copies after every so many steps cost, as a share of the time: by how much the steps that follow one take
    longer than the others of the same run, which go through the same good and bad minutes of this computer."""
    by_phase = {}
    for line in run[1][every:]:
        by_phase.setdefault((line["step"] - 1) % every, []).append(line["step_seconds"])
    medians = {phase: statistics.median(own) for phase, own in by_phase.items()}
    usual = statistics.median(own for phase, own in medians.items() if phase >= after)
    return sum(medians[phase] - usual for phase in range(after)) / (every * usual), every * usual


def overhead(bench):
    """What copies of a lone cluster's stages cost when nothing fails"""
    every, between = 50, 10  # steps; seconds between copies, or more, if nobody says how often
    base = {**SMALL, "model.layers": 6, "model.width": 256, "model.heads": 4, "train.batch": 4, "train.micro_batches": 4,
            "train.eval_batches": 0, "train.steps": 500, "swarm.peers": 3, "swarm.clusters": 1,
            "pipeline.schedule": "1f1b", "network.bandwidth": "500mbit", "network.latency": "1ms"}
    arms = {"without": {**base, "swarm.buddy_every": 0}, f"every {every} steps": {**base, "swarm.buddy_every": every}}
    results = bench.compare(arms)
    rows = [["copies", "step, median", "of the time"]]
    shares = [cost_of_copies(run, every) for run in results[f"every {every} steps"]]
    none = [cost_of_copies(run, every) for run in results["without"]]
    step = lambda runs: spread((1000 * statistics.median(line["step_seconds"] for line in run[1]) for run in runs),
                               "{:.1f} ms")
    percent = lambda values: spread((100 * value for value in values), "{:.1f}%")
    rows.append(["none", step(results["without"]), percent(share for share, _ in none)])
    rows.append([f"every {every} steps", step(results[f"every {every} steps"]), percent(share for share, _ in shares)])
    rows.append([f"every {between} s, as planned", "", percent(share * time / between for share, time in shares)])
    print_table(rows)


def liars(bench):
    """One of four sends what is no number, the opposite, or a hundredfold"""
    base = {**SMALL, "train.steps": 200, "train.eval_every": 200, "sync.interval": 4, "sync.warmup_steps": 4}
    rows = [["method", "rule", "fault", "loss", "of the three others alone", "ratio", "named"]]
    for method, (rule, fault) in itertools.product(
            ("allreduce", "diloco"), itertools.product(("clip", "trimmed-mean"), ("nan", "flip", "scale"))):
        losses, wanted, named = [], [], True
        for seed in bench.seeds:
            honest = bench.run(seed, {**base, **peers(3), "sync.method": method})
            lied = bench.run(seed, {**base, **peers(4), "sync.method": method, "sync.robust": rule,
                                    "peer.3.fault": fault})
            losses.append(lied[0]["eval_loss"])
            wanted.append(honest[0]["eval_loss"])
            named = named and lied[0].get("expelled") == ["peer-3"]
        rows.append([method, rule, fault, spread(losses), spread(wanted),
                     spread([a / b for a, b in zip(losses, wanted)]), "yes" if named else "no"])
    print_table(rows)


if __name__ == "__main__":
    main({"chaos": chaos, "newcomer": newcomer, "overhead": overhead, "liars": liars}, __doc__, "failures.json", seeds=1)
