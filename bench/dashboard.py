#!/usr/bin/env python3
"""What the dashboard costs those who train, and what it takes to serve and to look at."""

import base64
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from runs import PROGRAM, ROOT, print_table, spread

LOAD = ROOT / "build" / "dashboard_load"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PEERS = {"swarm.peers": 2, "swarm.clusters": 2, "sync.method": "diloco", "sync.interval": 8, "sync.warmup_steps": 0,
         "model.layers": 4, "model.width": 128, "model.heads": 4, "model.context": 128, "train.batch": 4, "train.threads": 1,
         "train.eval_batches": 0, "train.checkpoint_every": 0, "train.steps": 400}


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
        while piece := self.socket.recv(1 << 16):
            self.bytes += len(piece)


def train(seed, *, listen, look):
    """Seconds of a step, and what a viewer was sent, if one looked."""
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "train", "--json", "--out", f"{folder}/run"]
        for name, value in {**PEERS, "train.seed": seed, "dashboard.listen": listen}.items():
            command += ["--set", f"{name}={value}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        viewer = None
        for line in process.stderr:
            if look and line.startswith("dashboard: "):
                viewer = Viewer(line.split()[1])
        summary = json.loads(process.stdout.read().splitlines()[-1])
        process.wait()
        return summary["measured_step_seconds"], viewer.bytes if viewer else 0


def training(rounds=5):
    """Two peers on all of this computer's cores: a step without a dashboard, with one, and with one who looks on"""
    arms = {"off": {"listen": "off", "look": False}, "on": {"listen": "127.0.0.1:0", "look": False},
            "somebody looks on": {"listen": "127.0.0.1:0", "look": True}}
    steps, sent = {name: [] for name in arms}, 0
    for seed in range(1, rounds + 1):
        for name, how in arms.items():
            seconds, seen = train(seed, **how)
            steps[name].append(seconds)
            sent = max(sent, seen)
            print(f"  {seed}: {name} {1000 * seconds:.2f} ms", file=sys.stderr)
    rows = [["dashboard", "step", "ratio"]]
    for name, own in steps.items():
        rows.append([name, spread((1000 * seconds for seconds in own), "{:.2f} ms"),
                     spread(a / b for a, b in zip(own, steps["off"]))])
    print_table(rows)
    print(f"who looked on was sent {sent / 2**20:.1f} MiB\n")


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
