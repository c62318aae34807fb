#!/usr/bin/env python3
"""What the dashboard costs those who train, and what it takes to serve and to look at."""

import base64
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from runs import PROGRAM, ROOT, print_table, spread

LOAD = ROOT / "build" / "dashboard_load"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PEERS = {"swarm.peers": 2, "swarm.clusters": 2, "sync.method": "diloco", "sync.interval": 8, "sync.warmup_steps": 0,
         "model.layers": 4, "model.width": 128, "model.heads": 4, "model.context": 128, "train.batch": 4, "train.threads": 1,
         "train.eval_batches": 0, "train.checkpoint_every": 0, "train.steps": 800}


class Viewer(threading.Thread):
    """Reads all that a page would be sent, over a WebSocket, and shows nothing."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.bytes = 0
        port = int(re.match(r"http://127\.0\.0\.1:(\d+)/", url).group(1))
        self.socket = socket.create_connection(("127.0.0.1", port))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.start()

    def run(self):
        try:
            while piece := self.socket.recv(1 << 16):
                self.bytes += len(piece)
        except OSError:
            pass  # it does not look on any more

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def step_of(url):
    """The last step that is known to the dashboard."""
    with urllib.request.urlopen(re.match(r"http://[^/]+", url).group(0) + "/api/state", timeout=10) as answer:
        return json.load(answer)["run"]["step"]


def look_now_and_then(url, process, seconds=3):
    """Somebody looks on for a while, and then not, in turns. The steps at which that changed, and what was sent."""
    turns, sent = [], 0
    while process.poll() is None:
        try:
            turns.append(step_of(url))
            viewer = Viewer(url) if len(turns) % 2 else None
        except OSError:  # the run is over
            break
        time.sleep(seconds)
        if viewer:
            viewer.close()
            sent += viewer.bytes
    return turns, sent


def processor_seconds():
    """Of all processes that have ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(seed, listen, looks):
    """Seconds of all steps; those at which somebody began to look on, or ended; what that one was sent; and the processor
    seconds of all processes for a step."""
    before = processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "train", "--json", "--out", f"{folder}/run"]
        for name, value in {**PEERS, "train.seed": seed, "dashboard.listen": listen}.items():
            command += ["--set", f"{name}={value}"]
        with open(f"{folder}/errors", "w+", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, text=True, env=ENVIRONMENT)
            metrics, turns, sent = pathlib.Path(folder, "run", "metrics.jsonl"), [], 0
            while looks and not (metrics.exists() and metrics.stat().st_size) and process.poll() is None:
                time.sleep(0.1)
            if looks:
                errors.seek(0)
                url = next(line.split()[1] for line in errors if line.startswith("dashboard: "))
                turns, sent = look_now_and_then(url, process)
            process.wait()
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return [line["step_seconds"] for line in lines], turns, sent, (processor_seconds() - before) / len(lines)


def ratios_of(steps, turns):
    """Of what a step took while somebody looked on to what it took before and after, for each time."""
    spans = [steps[begin + 1:end] for begin, end in zip(turns, turns[1:])]
    for i in range(2, len(spans) - 1, 2):
        apart = spans[i - 1] + spans[i + 1]
        if spans[i] and apart:
            yield statistics.median(spans[i]) / statistics.median(apart)


def training(rounds=5):
    """Two peers on all of this computer's cores: a step without a dashboard, with one, and while somebody looks on"""
    off, on, work_off, work_on, ratios, most = [], [], [], [], [], 0
    for seed in range(1, rounds + 1):
        steps, _, _, work = train(seed, "off", False)
        off.append(statistics.median(steps))
        work_off.append(work)
        steps, turns, sent, work = train(seed, "127.0.0.1:0", True)
        on.append(statistics.median(steps))
        work_on.append(work)
        own = list(ratios_of(steps, turns))
        ratios += own
        most = max(most, sent)
        print(f"  {seed}: off {1000 * off[-1]:.2f} ms, on {1000 * on[-1]:.2f} ms, {len(own)} looks: "
              f"{statistics.median(own):.4f}", file=sys.stderr)
    quartiles = statistics.quantiles(ratios, n=4)
    print_table([["dashboard", "step", "ratio"], ["off", spread((1000 * s for s in off), "{:.2f} ms"), ""],
                 ["on", spread((1000 * s for s in on), "{:.2f} ms"), spread(a / b for a, b in zip(on, off))],
                 ["processor time of all, on / off", spread((1000 * s for s in work_on), "{:.2f} ms"),
                  spread((a / b for a, b in zip(work_on, work_off)), "{:.4f}")],
                 ["while somebody looks on / before and after, in the same run", f"{len(ratios)} times",
                  f"{quartiles[1]:.4f} (quartiles {quartiles[0]:.4f}, {quartiles[2]:.4f})"]])
    print(f"who looked on was sent {most / 2**20:.1f} MiB at most\n")


def server(seconds=30):
    """64 peers at 20 steps/s: how much of a core the server takes, with nobody, with one and with five who look on"""
    rows = [["viewers", "of a core", "bytes/s to each"]]
    for viewers in (0, 1, 5):
        process = subprocess.Popen([LOAD, str(seconds)], stdout=subprocess.PIPE, text=True)
        url = process.stdout.readline().strip()
        all_of_them = [Viewer(url) for _ in range(viewers)]
        share = json.loads(process.stdout.readline())["processor_share"]
        process.wait()
        sent = statistics.median([viewer.bytes for viewer in all_of_them]) / seconds if viewers else 0
        rows.append([str(viewers), f"{100 * share:.1f}%", f"{sent / 1024:.0f} KiB/s" if viewers else ""])
    print_table(rows)


def memory():
    """An hour of such traffic, as fast as it goes, with somebody who looks on: resident memory"""
    process = subprocess.Popen([LOAD, "hour"], stdout=subprocess.PIPE, text=True)
    Viewer(process.stdout.readline().strip())
    rows = [["minutes", "MiB"]]
    for line in process.stdout:
        facts = json.loads(line)
        rows.append([str(facts["minutes"]), f"{facts['memory_bytes'] / 2**20:.1f}"])
    print_table(rows)


def browser(seconds=40):
    """The same in Chromium: frames a second of each view"""
    process = subprocess.Popen([LOAD, str(seconds + 20)], stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip()
    time.sleep(5)  # until there is something to see
    script = ROOT / "tests" / "browser" / "frames.mjs"
    result = subprocess.run(["node", script, url, str(seconds / 4)], capture_output=True, text=True, check=True)
    process.kill()
    rows = [["view", "frames/s", "longest frame"]]
    rows += [[view["view"], f"{view['rate']:.0f}", f"{view['longest']:.0f} ms"] for view in json.loads(result.stdout)]
    print_table(rows)


if __name__ == "__main__":
    parts = {"training": training, "server": server, "memory": memory, "browser": browser}
    for name in sys.argv[1:] or parts:
        print(f"## {parts[name].__doc__}\n")
        parts[name]()
