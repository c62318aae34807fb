#!/usr/bin/env python3
"""Pipelines: how busy their stages are, what memory they take, what staleness costs, and rings at the same time.

Each figure is the median over seeds, with the range in brackets. Runs that are compared are made in turns, seed by seed.
Results are kept in a file, and runs that are there are not made again.
"""

import statistics

from runs import ROOT, main, print_table, spread

ALONE = {"train.threads": 1, "train.checkpoint_every": 0}
MIB = 2**20


def middle(lines):
    """The middle four fifths."""
    return lines[len(lines) // 10:len(lines) - len(lines) // 10]


def busy_share(lines):
    computed = sum(line["compute_seconds"] for line in middle(lines))
    return computed / (computed + sum(line["wait_seconds"] for line in middle(lines)))


def samples_per_second(lines):
    lines = middle(lines)
    return (lines[-1]["samples"] - lines[0]["samples"]) / (lines[-1]["seconds"] - lines[0]["seconds"])


def bubble(bench):
    """Four equal stages on 0.35 cores each; sending a border takes a quarter of a stage's compute."""
    width, context, samples, micro_batches = 192, 128, 4, 4
    base = {**ALONE, "model.layers": 8, "model.width": width, "model.heads": 4, "model.context": context,
            "train.batch": samples * micro_batches, "train.micro_batches": micro_batches, "train.steps": 60,
            "train.eval_batches": 0, "swarm.peers": 4, "pipeline.stages": "[[0,3],[3,5],[5,7],[7,10]]"}
    base.update({f"peer.{i}.speed": 0.35 for i in range(4)})
    free = bench.run(1, {**base, "pipeline.schedule": "async"})
    slowest = max(sum(line["compute_seconds"] for line in middle(lines)) / len(middle(lines)) / micro_batches
                  for lines in free[2].values())
    border = samples * context * width * 4
    kilobits = round(border * 8 / (slowest / 4) / 1000, -3)
    print(f"A stage computes {1000 * slowest:.0f} ms for a micro-batch; a border is {border / 1000:.0f} kB, "
          f"so links have {kilobits / 1000:.0f} Mbit/s.\n")
    arms = {schedule: {**base, "pipeline.schedule": schedule, "network.bandwidth": f"{kilobits:.0f}kbit"}
            for schedule in ("async", "1f1b", "gpipe")}
    results = bench.compare(arms)
    rates = {name: [samples_per_second(result[1]) for result in runs] for name, runs in results.items()}
    rows = [["schedule", "slowest stage computes", "all stages, mean", "samples/s", "against gpipe", "staleness at most"]]
    for name, runs in results.items():
        # The slowest is the one that computes longest for a step.
        shares = [max((sum(line["compute_seconds"] for line in middle(lines)), busy_share(lines))
                      for lines in peers.values())[1] for _, _, peers in runs]
        means = [statistics.mean(busy_share(lines) for lines in peers.values()) for _, _, peers in runs]
        rows.append([name, spread((100 * share for share in shares), "{:.1f}%"),
                     spread((100 * mean for mean in means), "{:.1f}%"), spread(rates[name], "{:.1f}"),
                     spread(own / gpipe for own, gpipe in zip(rates[name], rates["gpipe"])),
                     " ".join(str(len(peer["staleness"]) - 1) for peer in runs[0][0]["peers"])])
    print_table(rows)


def memory(bench):
    """Peak memory of each peer, without what the program takes before it holds any layer, against plan."""
    base = {**ALONE, "model.layers": 14, "model.width": 512, "model.heads": 8, "model.context": 64, "train.batch": 8,
            "train.micro_batches": 8, "train.steps": 6, "train.eval_batches": 1}
    own = lambda peer: (peer["peak_memory_bytes"] - peer["own_memory_bytes"]) / MIB
    one = own(bench.run(1, base)[0]["peers"][0])
    rows = [["stages", "schedule", "weights", "MiB of each stage", "planned", "largest / planned", "largest / one process"],
            ["1", "", "", f"{one:.0f}", "", "", "1"]]
    for stages, schedule, weights in ((2, "1f1b", "latest"), (4, "1f1b", "latest"), (8, "1f1b", "latest"),
                                      (4, "async", "latest"), (4, "async", "stash"), (4, "async", "recompute")):
        limits = {f"peer.{i}.memory": "64GiB" for i in range(stages)}  # as peers with little have it
        peers = bench.run(1, {**base, "swarm.peers": stages, "swarm.clusters": 1, "pipeline.schedule": schedule,
                              "pipeline.weights": weights, **limits})[0]["peers"]
        planned = [peer["planned_memory_bytes"] / MIB for peer in peers]
        measured = [own(peer) for peer in peers]
        rows.append([str(stages), schedule, weights, " ".join(f"{m:.0f}" for m in measured),
                     " ".join(f"{p:.0f}" for p in planned),
                     f"{max(m / p for m, p in zip(measured, planned)):.2f}", f"{max(measured) / one:.2f}"])
    print_table(rows)


def staleness(bench):
    """Async with four stages against one process, at equal samples: tales, and MNIST."""
    tales = {**ALONE, "model.layers": 4, "model.width": 64, "model.heads": 2, "model.context": 64, "train.batch": 16,
             "train.micro_batches": 4, "train.steps": 3000, "train.lr": 0.001, "train.warmup": 50, "train.eval_every": 0,
             "train.eval_batches": 64}
    mnist = {**ALONE, "model.kind": "cnn", "data.source": ROOT / "data" / "mnist", "train.batch": 64,
             "train.micro_batches": 4, "train.steps": 800, "train.lr": 2e-3, "train.warmup": 50, "train.eval_every": 0}
    for name, base, measure in (("tales", tales, "eval_loss"), ("MNIST", mnist, "test_accuracy")):
        arms = {"one process": base}
        for weights, frequency in (("stash", 1), ("latest", 1), ("recompute", 1), ("stash", 4)):
            arms[f"async, {weights}, {4 // frequency} update{'s' if frequency == 1 else ''} in a step"] = {
                **base, "swarm.peers": 4, "swarm.clusters": 1, "pipeline.schedule": "async",
                "pipeline.weights": weights, "pipeline.update_frequency": frequency}
        results = bench.compare({key: {k: str(v) for k, v in arm.items()} for key, arm in arms.items()})
        reference = [result[0][measure] for result in results["one process"]]
        rows = [[name, measure.replace("_", " "), "against one process", "staleness at most"]]
        for key, runs in results.items():
            values = [result[0][measure] for result in runs]
            if measure == "eval_loss":
                against = spread(value / other for value, other in zip(values, reference))
            else:
                against = spread((100 * (value - other) for value, other in zip(values, reference)), "{:+.2f} points")
            stale = " ".join(str(len(peer["staleness"]) - 1) for peer in runs[0][0]["peers"] if "staleness" in peer)
            rows.append([key, spread(values, "{:.4f}"), against, stale])
        print_table(rows)


def rings(bench):
    """Four rings over disjoint peers, and one alone, on links of 20 Mbit/s: seconds that a round takes."""
    base = {**ALONE, "model.width": 192, "model.heads": 4, "model.context": 32, "train.batch": 2, "train.steps": 21,
            "train.eval_batches": 0, "sync.method": "local-sgd", "sync.interval": 2, "pipeline.schedule": "1f1b",
            "network.bandwidth": "20mbit"}
    arms = {"one ring": {**base, "model.layers": 2, "swarm.peers": 2, "swarm.clusters": 2},
            "four rings": {**base, "model.layers": 8, "swarm.peers": 8,
                           "pipeline.stages": "[[0,3],[3,5],[5,7],[7,10]]"}}
    results = bench.compare(arms)

    def round_seconds(result):
        # Every other step has a round; what it takes longer than the others is the round.
        lines = result[1][1:]
        with_round = [line["step_seconds"] for line in lines if line["step"] % 2 == 0]
        without = [line["step_seconds"] for line in lines if line["step"] % 2 == 1]
        return statistics.median(with_round) - statistics.median(without)

    times = {name: [round_seconds(result) for result in runs] for name, runs in results.items()}
    rows = [["", "MB that the busiest peer sends for a round", "seconds of a round", "against one ring"]]
    for name, runs in results.items():
        sent = lambda lines, odd: statistics.median(l["bytes_sent"] for l in lines[1:] if l["step"] % 2 == odd)
        busiest = max(sent(lines, 0) - sent(lines, 1) for lines in runs[0][2].values())
        rows.append([name, f"{busiest / 1e6:.2f}", spread(times[name]),
                     spread(own / one for own, one in zip(times[name], times["one ring"]))])
    print_table(rows)


PARTS = {part.__name__: part for part in (bubble, memory, staleness, rings)}

if __name__ == "__main__":
    main(PARTS, __doc__, "pipeline.json", seeds=3)
