#!/usr/bin/env python3
"""Whole processes, as a user would run them: process_test.py BUILD_DIRECTORY"""

import contextlib
import ctypes
import json
import os
import pathlib
import random
import resource
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import tensorboard

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TINY = ["model.layers=1", "model.width=32", "model.heads=2", "model.context=32", "train.batch=4", "train.threads=1",
        "train.eval_batches=1"]
TIMEOUT = int(os.environ.get("ROOKERY_TEST_TIMEOUT", 120))


def connections_of(pid):
    """Duplicates of the TCP connections that another process has."""
    established = {fields[9] for table in ("tcp", "tcp6")
                   for fields in map(str.split, pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:])
                   if fields[3] == "01"}
    descriptor = os.pidfd_open(pid)
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if not target.startswith("socket:[") or target[8:-1] not in established:
            continue
        duplicate = ctypes.CDLL(None, use_errno=True).syscall(438, descriptor, int(entry.name), 0)  # pidfd_getfd
        if duplicate < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        yield socket.socket(fileno=duplicate)
    os.close(descriptor)


def cut_off(pid):
    """Nothing that is sent to this process over TCP arrives any more, as if its cable had been pulled."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # a packet filter: return 0
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    found = 0
    for connection in connections_of(pid):
        with connection:
            connection.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
            found += 1
    assert found > 0


def whole_lines(path):
    """Of a file that may be being written: a last line without an end is not there yet."""
    content = path.read_bytes()
    return content[:content.rfind(b"\n") + 1].decode().splitlines()


class ProcessTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def run_program(self, *arguments, program="rookery", settings=(), **options):
        command = [BUILD / program, *map(str, arguments)]
        for setting in settings:
            command += ["--set", setting]
        options.setdefault("env", getattr(self, "environment", None))
        # A model of bytes that has learnt little may write text that is not UTF-8.
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT, check=False, **options)

    def train(self, *settings, arguments=(), **options):
        return self.run_program("train", "--out", "run", *arguments, settings=[*TINY, *settings], **options)

    def assert_wrong_input(self, result, *fragments):
        """Exit code 2, and one sentence on standard error that names what was wrong."""
        self.assertEqual(result.returncode, 2, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("rookery: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, lines[0])

    def metrics(self, run="run"):
        lines = [json.loads(line) for line in whole_lines(self.folder / run / "metrics.jsonl")]
        for line in lines:
            del line["seconds"], line["step_seconds"]
        return lines

    def write_digits(self):
        folder = self.folder / "mnist"
        folder.mkdir()
        for split, count in (("train", 200), ("t10k", 20)):
            labels = bytes(i % 10 for i in range(count))
            # Class k is a bright row k: something that can be learnt.
            images = b"".join(bytes(255 if row == label else 0 for row in range(28) for _ in range(28)) for label in labels)
            (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + images)
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)

    def checkpoints(self):
        return sorted(path.name for path in (self.folder / "run" / "checkpoints").iterdir())


class TrainTest(ProcessTest):
    def test_a_run_holds_what_the_documents_promise(self):
        result = self.train("train.steps=6", "train.eval_every=3", arguments=["--json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout.splitlines()[-1])
        for key in ("final_loss", "eval_loss", "steps", "tokens_per_second", "samples_per_second", "wall_seconds",
                    "peak_memory_bytes", "parameters", "entropy_floor", "predicted_step_seconds",
                    "measured_step_seconds"):
            self.assertIn(key, summary)
        run = self.folder / "run"
        self.assertEqual(json.loads((run / "summary.json").read_text())["final_loss"], summary["final_loss"])
        self.assertTrue((run / "log.txt").stat().st_size > 0)
        self.assertTrue(any((run / "tensorboard").iterdir()))
        first = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
        for key in ("step", "loss", "seconds", "samples", "tokens", "lr", "grad_norm"):
            self.assertIn(key, first)

        again = self.run_program("train", run / "run.toml", "--out", "again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.metrics("again"), self.metrics("run"))

    def test_a_folder_called_like_a_built_in_source_is_not_mistaken_for_it(self):
        (self.folder / "tales").mkdir()
        self.assertEqual(self.train("train.steps=2").returncode, 0)
        again = self.run_program("train", "--out", "run", "--resume", settings=["train.steps=4"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(self.metrics()), 4)

    def test_interrupt_saves_a_checkpoint_and_resume_goes_on(self):
        settings = [*TINY, "train.steps=300", "train.checkpoint_every=1000"]
        command = [BUILD / "rookery", "train", "--out", "run"]
        for setting in settings:
            command += ["--set", setting]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIMEOUT
        metrics = self.folder / "run" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
            self.assertIsNone(process.poll(), "ended before it could be interrupted")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)
        self.assertIn("--resume", out)
        done = len(self.metrics())
        self.assertEqual(self.checkpoints(), [f"step-{done}"])

        # The settings come from the run itself, and the rest of it is as if nothing had happened.
        result = self.run_program("train", "--out", "run", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        whole = self.run_program("train", "run/run.toml", "--out", "whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(self.metrics("run"), self.metrics("whole"))

    def test_a_full_disk_keeps_the_old_checkpoint(self):
        self.assertEqual(self.train("train.steps=4").returncode, 0)
        before = (self.folder / "run/checkpoints/step-4/model.safetensors").read_bytes()

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))

        result = self.train("train.steps=8", arguments=["--resume"], preexec_fn=small_files)
        self.assert_wrong_input(result, "checkpoints/step-8")
        self.assertEqual(self.checkpoints(), ["step-4"])
        self.assertEqual((self.folder / "run/checkpoints/step-4/model.safetensors").read_bytes(), before)
        self.assertEqual(self.train("train.steps=8", arguments=["--resume"]).returncode, 0)


class SwarmProcessTest(ProcessTest):
    """Swarms of real processes, on this machine."""

    PEERS = 3

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}

    def start(self, *arguments, settings=(), program="rookery", **options):
        command = [BUILD / program, *map(str, arguments)]
        for setting in settings:
            command += ["--set", setting]
        process = subprocess.Popen(command, cwd=options.pop("cwd", self.folder), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env=options.pop("env", self.environment), **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def swarm_settings(self, *settings):
        return [*TINY, f"swarm.peers={self.PEERS}", f"swarm.clusters={self.PEERS}", "sync.method=allreduce", *settings]

    def start_swarm(self, *settings, out="run"):
        return self.start("train", "--out", out, settings=self.swarm_settings(*settings))

    def coordinate(self, *settings, out="run", **options):
        """A coordinator that waits, and its ticket."""
        process = self.start("coordinate", "--listen", "127.0.0.1:0", "--out", out,
                             settings=self.swarm_settings(*settings), **options)
        return process, process.stdout.readline().split()[2]

    def join(self, ticket, name, *arguments, **options):
        return self.start("join", ticket, "--name", name, *arguments, **options)

    def finish(self, process):
        """Its exit code, and what it said."""
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out, err

    def assert_all_run(self, processes):
        for process in processes:
            if process.poll() is not None:
                self.fail(f"has ended: {self.finish(process)}, {self.events()}")

    def interrupt(self, coordinator, peers):
        """Ctrl-C at the coordinator: it ends as such runs do, and all peers well."""
        coordinator.send_signal(signal.SIGINT)
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 130, err)
        for peer in peers:
            code, _, err = self.finish(peer)
            self.assertEqual(code, 0, err)

    @staticmethod
    def children(pid):
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def wait_until(self, condition, what):
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def wait_for_step(self, step, lines="run/metrics.jsonl"):
        metrics = self.folder / lines
        self.wait_until(lambda: metrics.exists() and len(whole_lines(metrics)) >= step, f"step {step}")

    def wait_for_event(self, kind, peer, times=1):
        self.wait_until(lambda: self.kinds(kind).count(peer) >= times, f"{peer}: {kind}")

    def wait_for_words(self, process, words):
        """Until it has said so on standard error; what it has said so far is not in what finish() returns."""
        said, deadline = b"", time.monotonic() + TIMEOUT
        while words.encode() not in said:
            ready, _, _ = select.select([process.stderr], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"has not said '{words}', but {said}")
            more = os.read(process.stderr.fileno(), 1 << 16)
            self.assertTrue(more, f"has ended, and not said '{words}', but {said}")
            said += more

    def assert_nothing_is_left(self, pids, killed=()):
        """Processes have ended, and removed what they had written; the next one does it for those that were killed."""
        def gone(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except (FileNotFoundError, ProcessLookupError):
                return True
        self.wait_until(lambda: all(map(gone, pids)), "a process is left")
        left = [path for path in self.cache.rglob("scratch-*") if int(path.name.split("-")[2]) not in killed]
        self.assertEqual(left, [])
        if set(killed) != set(pids):  # their coordinator goes with them only then
            self.assertEqual([path.name for path in (self.folder / "run").iterdir() if path.name.startswith(".")], [])

    def result_lines(self, run="run"):
        """Metrics without what depends on time."""
        lines = self.metrics(run)
        for line in lines:
            for key in ("compute_seconds", "wait_seconds", "bytes_sent", "bytes_received"):
                line.pop(key, None)
        return lines

    def events(self, run="run"):
        return [json.loads(line) for line in whole_lines(self.folder / run / "events.jsonl")]

    def kinds(self, kind):
        return sorted(event.get("peer", "") for event in self.events() if event["event"] == kind)


class SwarmTest(SwarmProcessTest):
    """Every peer has a copy of its own."""

    def test_every_method_trains_and_writes_what_the_documents_promise(self):
        for method in ("allreduce", "gossip", "local-sgd", "diloco", "palsgd", "none"):
            result = self.train(f"swarm.peers={self.PEERS}", f"swarm.clusters={self.PEERS}", "train.steps=12",
                                "train.eval_every=6",
                                f"sync.method={method}", "sync.interval=4", "sync.warmup_steps=4",
                                arguments=["--json"])
            self.assertEqual(result.returncode, 0, f"{method}: {result.stderr}")
            summary = json.loads(result.stdout.splitlines()[-1])
            self.assertEqual([peer["name"] for peer in summary["peers"]], ["peer-0", "peer-1", "peer-2"])
            for key in ("bytes_sent", "exposed_communication_share", "rounds", "eval_loss", "test_loss",
                        "consensus_distance", "measured_step_seconds", "peak_memory_bytes"):
                self.assertIn(key, summary, method)
            self.assertEqual(summary["rounds"] > 0, method != "none")
            self.assertEqual("eval_loss" in summary["peers"][0], method == "none")
            lines = self.metrics()
            self.assertEqual([line["step"] for line in lines], list(range(1, 13)))
            for key in ("compute_seconds", "wait_seconds", "bytes_sent"):
                self.assertIn(key, lines[0])
            self.assertEqual([line["step"] for line in lines if "consensus_distance" in line], [6, 12])
            own = (self.folder / "run" / "peers" / "peer-1.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["step"] for line in own], list(range(1, 13)))
            self.assertEqual(self.checkpoints(), ["step-12"])
            kinds = {event["event"] for event in self.events()}
            self.assertLessEqual({"joined", "ready", "planned", "began", "checkpoint"}, kinds)

    def test_peers_that_join_by_hand_give_the_same_result_as_a_local_swarm(self):
        settings = ("train.steps=20", "train.eval_every=10", "sync.method=palsgd", "sync.interval=4",
                    "sync.warmup_steps=4")
        self.assertEqual(self.finish(self.start_swarm(*settings, out="local"))[0], 0)
        coordinator, ticket = self.coordinate(*settings)
        peers = [self.join(ticket, name) for name in ("attic", "barn", "cellar")]
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 0, err)
        self.assertIn("attic is ready", err)
        for peer in peers:
            code, out, err = self.finish(peer)
            self.assertEqual(code, 0, err)
            self.assertIn("the run is over", out)
        self.assertEqual(self.result_lines("run"), self.result_lines("local"))
        model = "checkpoints/step-20/model.safetensors"
        self.assertEqual((self.folder / "run" / model).read_bytes(), (self.folder / "local" / model).read_bytes())

        late = self.join(ticket, "dove")
        code, _, err = self.finish(late)
        self.assertEqual(code, 1)
        self.assertIn("the run may have ended", err)

    def test_an_interrupted_swarm_goes_on_where_it_was(self):
        settings = ("train.steps=60", "train.eval_every=30", "sync.method=allreduce")
        self.assertEqual(self.finish(self.start_swarm(*settings, out="whole"))[0], 0)
        # Long before the first evaluation, which would end without a result.
        process = self.start_swarm(*settings, *(f"peer.{i}.step_time=60ms" for i in range(self.PEERS)))
        self.wait_for_step(5)
        pids = self.children(process.pid)
        self.assertEqual(len(pids), self.PEERS)
        process.send_signal(signal.SIGINT)
        code, out, err = self.finish(process)
        self.assertEqual(code, 130, err)
        self.assertIn("continue with: rookery train --resume --out run", out)
        self.assert_nothing_is_left(pids)
        self.assertLess(len(self.metrics()), 60)
        self.assertEqual(self.checkpoints(), [f"step-{len(self.metrics())}"])
        again = self.run_program("train", "--out", "run", "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.result_lines("run"), self.result_lines("whole"))

    def test_a_long_evaluation_ends_when_the_run_is_to(self):
        (self.folder / "long.txt").write_text("a long text that nobody reads to its end\n" * 200_000)
        process = self.start_swarm("data.source=long.txt", "train.steps=9", "train.eval_every=3",
                                   "train.eval_batches=1000000", "model.width=64", "sync.method=diloco")
        for peer in range(self.PEERS):
            self.wait_for_step(3, f"run/peers/peer-{peer}.jsonl")
        process.send_signal(signal.SIGINT)
        code, _, err = self.finish(process)
        self.assertEqual(code, 130, err)
        self.assertEqual(self.checkpoints(), ["step-3"])
        self.assertEqual([line["step"] for line in self.metrics()], [1, 2, 3])
        self.assertNotIn("eval_loss", self.metrics()[2])

    def test_another_number_of_peers_goes_on_with_the_samples_that_come_next(self):
        self.assertEqual(self.finish(self.start_swarm("train.steps=4", "sync.method=gossip"))[0], 0)
        again = self.run_program("train", "--out", "run", "--resume",
                                 settings=["train.steps=6", "swarm.peers=2", "swarm.clusters=2"])
        self.assertEqual(again.returncode, 0, again.stderr)
        batch = self.metrics()[0]["samples"] // self.PEERS
        self.assertEqual([line["samples"] for line in self.metrics()],
                         [self.PEERS * batch * i for i in (1, 2, 3, 4)] +
                         [self.PEERS * batch * 4 + 2 * batch * i for i in (1, 2)])
        refused = self.run_program("train", "--out", "run", "--resume",
                                   settings=["train.steps=8", "swarm.peers=3", "swarm.clusters=3", "sync.method=palsgd"])
        self.assert_wrong_input(refused, "was made by 2 clusters", "palsgd")

    def test_a_lost_peer_ends_the_run_with_a_checkpoint_and_its_name(self):
        for victim, blow in ((0, signal.SIGKILL), (2, signal.SIGKILL), (1, signal.SIGSTOP)):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.start_swarm("train.steps=100000", "sync.method=gossip", "sync.codec=bf16",
                                       "train.eval_every=0", "train.checkpoint_every=0")
            self.wait_for_step(5)
            pids = self.children(process.pid)
            names = {self.name_of(pid): pid for pid in pids}
            os.kill(names[f"peer-{victim}"], blow)
            code, _, err = self.finish(process)
            self.assertEqual(code, 1, err)
            self.assertIn(f"peer-{victim} was lost", err)
            self.assertIn("--resume", err)
            self.assert_nothing_is_left(pids, killed=[names[f"peer-{victim}"]])
            self.assertEqual(len(self.checkpoints()), 1)
            self.assertIn({"lost"}, [{event["event"]} for event in self.events()])
        step = len(self.metrics())
        again = self.run_program("train", "--out", "run", "--resume", settings=[f"train.steps={step + 5}"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, step + 6)))

    def test_the_others_go_on_without_a_lost_peer(self):
        for victim, blow, method, *more in ((0, signal.SIGKILL, "allreduce"), (2, signal.SIGKILL, "diloco"),
                                            (1, signal.SIGSTOP, "local-sgd"), (0, signal.SIGSTOP, "palsgd"),
                                            (1, signal.SIGKILL, "gossip"), (2, signal.SIGSTOP, "gossip"),
                                            (1, signal.SIGKILL, "none"),
                                            (2, signal.SIGKILL, "allreduce", "sync.codec=int8")):
            with self.subTest(victim=victim, method=method, more=more):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process = self.start_swarm("train.steps=60", f"sync.method={method}", "sync.interval=4",
                                           "sync.warmup_steps=4", "train.eval_every=10", "train.checkpoint_every=20",
                                           "peer.0.step_time=50ms", *more)
                self.wait_for_step(8)
                pids = self.children(process.pid)
                names = {self.name_of(pid): pid for pid in pids}
                os.kill(names[f"peer-{victim}"], blow)
                code, _, err = self.finish(process)
                self.assertEqual(code, 0, err)
                self.assert_nothing_is_left(pids, killed=[names[f"peer-{victim}"]])
                self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 61)))
                lost = [event["peer"] for event in self.events() if event["event"] == "lost"]
                self.assertEqual(lost, [f"peer-{victim}"])
                self.assertIn("step-60", self.checkpoints())
                if method != "none":
                    self.assertTrue(json.loads((self.folder / "run" / "summary.json").read_text())["identical_copies"])
                if method != "palsgd":  # which uses no samples in some of its steps
                    samples = [line["samples"] for line in self.metrics()]
                    self.assertEqual(samples[-1] - samples[-2], samples[0] * 2 // 3)

    def test_a_peer_that_lies_is_found_out_and_harms_nobody(self):
        settings = ["train.steps=60", "sync.interval=4", "sync.warmup_steps=4", "train.eval_every=60",
                    "train.checkpoint_every=60", "train.batch=8"]
        for method, robust, fault in (("diloco", "trimmed-mean", "flip"), ("allreduce", "clip", "nan"),
                                      ("local-sgd", "trimmed-mean", "scale")):
            with self.subTest(method=method, fault=fault):
                losses = []
                for peers, more in ((3, []), (4, [f"sync.robust={robust}", f"peer.3.fault={fault}"])):
                    shutil.rmtree(self.folder / "run", ignore_errors=True)
                    process = self.start_swarm(*settings, f"sync.method={method}", f"swarm.peers={peers}",
                                               f"swarm.clusters={peers}", *more)
                    code, _, err = self.finish(process)
                    self.assertEqual(code, 0, err)
                    losses.append(json.loads((self.folder / "run" / "summary.json").read_text())["eval_loss"])
                events = self.events()
                for kind in ("suspected", "expelled", "lost"):
                    self.assertEqual({event["peer"] for event in events if event["event"] == kind}, {"peer-3"}, kind)
                summary = json.loads((self.folder / "run" / "summary.json").read_text())
                self.assertEqual(summary["expelled"], ["peer-3"])
                self.assertTrue(summary["identical_copies"])
                self.assertLess(abs(losses[1] / losses[0] - 1), 0.05)

    def test_somebody_new_takes_the_place_of_a_lost_peer(self):
        for method, trains in (("allreduce", True), ("allreduce", False), ("diloco", True), ("gossip", True),
                               ("local-sgd", False)):
            with self.subTest(method=method, trains=trains):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                coordinator, ticket = self.coordinate("train.steps=100000", f"sync.method={method}", "sync.interval=4",
                                                      "sync.warmup_steps=4", "train.eval_every=0",
                                                      "train.checkpoint_every=0")
                peers = {name: self.join(ticket, name, "--speed", "0.2") for name in ("attic", "barn", "cellar")}
                self.wait_for_step(5)
                peers["barn"].kill()
                self.wait_for_event("lost", "barn")
                new = self.join(ticket, "den", "--speed", "0.2")
                self.wait_for_event("began", "den")
                if trains:
                    self.wait_for_step(5, "run/peers/den.jsonl")
                coordinator.send_signal(signal.SIGINT)
                code, _, err = self.finish(coordinator)
                self.assertEqual(code, 130, err)
                for process in (peers["attic"], peers["cellar"], new):
                    code, _, err = self.finish(process)
                    self.assertEqual(code, 0, err)
                self.assertEqual([line["step"] for line in self.metrics()], list(range(1, len(self.metrics()) + 1)))
                self.assertEqual(self.checkpoints(), [f"step-{len(self.metrics())}"])
                if trains:  # all three do their part in the end
                    samples = [line["samples"] for line in self.metrics()]
                    self.assertEqual(samples[-1] - samples[-2], samples[0])

    def test_a_run_bears_what_chaos_does_to_it(self):
        # By appointment: however slow this computer is, they are never all gone at once.
        arguments = ["--chaos", "kill 1 at 2s, kill 3 at 5s, kill 0 at 8s, rejoin 1s"]
        result = self.run_program("train", "--out", "run", *arguments, settings=[
            *TINY, "swarm.peers=4", "swarm.clusters=4", "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=0",
            "train.steps=140", *(f"peer.{i}.step_time=100ms" for i in range(4))])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 141)))
        self.assertIn("is killed", [event.get("text") for event in self.events() if event["event"] == "chaos"])
        self.assertTrue(any(event["event"] == "lost" for event in self.events()))
        self.assertTrue(json.loads((self.folder / "run" / "summary.json").read_text())["left_out"])
        for spec in ("kill", "kill often", "maim 1/s", "rejoin 1s"):
            self.assert_wrong_input(self.run_program("train", "--chaos", spec, settings=["swarm.peers=2"]), "--chaos")

    def name_of(self, pid):
        """Which peer a process is: the one whose log it writes."""
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(entry)
            if target.endswith(".log") and "/peers/" in target:
                return pathlib.Path(target).stem
        return None

    def test_peers_go_with_the_process_that_started_them(self):
        process = self.start_swarm("train.steps=100000")
        self.wait_for_step(3)
        pids = self.children(process.pid)
        process.kill()
        process.wait()
        self.assert_nothing_is_left(pids, killed=pids)
        self.assertEqual(self.finish(self.start_swarm("train.steps=2"))[0], 0)
        self.assert_nothing_is_left(pids)

    def test_peers_end_when_their_coordinator_is_gone(self):
        for method in ("allreduce", "local-sgd", "gossip", "none"):
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            coordinator, ticket = self.coordinate("train.steps=100000", f"sync.method={method}", "sync.interval=20")
            peers = [self.join(ticket, "attic", "--speed", "0.2", "--patience", "1s"),
                     self.join(ticket, "barn", "--patience", "1s"), self.join(ticket, "cellar", "--patience", "1s")]
            self.wait_for_step(3)
            coordinator.kill()
            coordinator.wait()
            for peer in peers:
                code, _, err = self.finish(peer)
                self.assertEqual(code, 1, err)
                self.assertIn("rookery: coordinator", err)
            self.assert_nothing_is_left([peer.pid for peer in peers])

    def test_a_peer_that_cannot_take_part_ends_a_local_swarm(self):
        result = self.train(f"swarm.peers={self.PEERS}", "peer.1.memory=10KiB")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("peer-1 cannot take part: has too little memory: the program alone takes", result.stderr)
        result = self.train(f"swarm.peers={self.PEERS}", "model.layers=8", "model.width=512", "model.heads=8",
                            *(f"peer.{i}.memory=130MiB" for i in range(self.PEERS)))
        self.assert_wrong_input(result, "the model does not fit", "MiB", "would do")
        self.assert_wrong_input(self.train(f"swarm.peers={self.PEERS}", "train.device=cuda"), "train.device")

    def test_a_peer_without_the_run_s_model_is_told_so(self):
        self.write_digits()
        settings = ["model.kind=reader", "data.source=mnist", "train.steps=4", "swarm.peers=2", "swarm.clusters=2",
                    "train.threads=1"]
        coordinator = self.start("coordinate", "--listen", "127.0.0.1:0", "--out", "run", program="custom_model",
                                 settings=settings)
        ticket = coordinator.stdout.readline().split()[2]
        code, _, err = self.finish(self.join(ticket, "stranger"))
        self.assertEqual(code, 2, err)
        self.assertIn("reader", err)
        peers = [self.start("join", ticket, "--name", name, program="custom_model") for name in ("attic", "barn")]
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 0, err)
        self.assertIn("stranger was not admitted", err)
        for peer in peers:
            self.assertEqual(self.finish(peer)[0], 0)

    def test_data_goes_to_whoever_lacks_it(self):
        words = "".join(f"the {i}th bird sings of {i * i} summers. " for i in range(4000))
        (self.folder / "book.txt").write_text(words)
        # Every process has a folder of its own there, and only the coordinator's has the book.
        settings = ("data.source=/proc/self/cwd/book.txt", "train.steps=6")
        coordinator, ticket = self.coordinate(*settings)
        peers = []
        for name in ("attic", "barn", "cellar"):
            elsewhere = self.folder / name
            elsewhere.mkdir()
            environment = {**os.environ, "XDG_CACHE_HOME": str(elsewhere / "cache")}
            peers.append(self.join(ticket, name, cwd=elsewhere, env=environment))
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 0, err)
        for peer in peers:
            self.assertEqual(self.finish(peer)[0], 0)
        fetched = list((self.folder / "attic" / "cache").rglob("book.txt"))
        self.assertEqual([path.read_text() == words for path in fetched], [True])

    def test_what_a_swarm_cannot_do_is_said_in_one_sentence(self):
        train = lambda *settings: self.run_program("train", "--out", "run", settings=self.swarm_settings(*settings))
        self.assert_wrong_input(train("sync.method=carrier-pigeon"), "sync.method", "carrier-pigeon")
        self.assert_wrong_input(train("sync.method=gossip", "sync.topology=one-peer-exp"), "one-peer-exp", "3")
        self.assert_wrong_input(train("sync.method=gossip", "sync.topology=alternating-exp-ring"),
                                "alternating-exp-ring")
        self.assert_wrong_input(train("sync.method=diloco", "sync.interval=4", "sync.delay=4"), "sync.delay")
        self.assert_wrong_input(train("sync.method=gossip", "sync.robust=clip"), "sync.robust", "gossip")
        self.assert_wrong_input(train("sync.method=local-sgd", "sync.robust=clip"), "local-sgd", "trimmed-mean")
        self.assert_wrong_input(self.run_program("join", "rookery-nonsense"), "ticket")
        self.assertFalse((self.folder / "run").exists())

    def test_who_does_not_fit_is_told_why_and_the_rest_goes_on(self):
        coordinator, ticket = self.coordinate("train.steps=100000")
        self.assert_wrong_input(self.run_program("join", ticket, "--step-time", "soon"), "--step-time", "soon")
        poor = self.join(ticket, "poor", "--memory", "10KiB")
        code, _, err = self.finish(poor)
        self.assertEqual(code, 2, err)
        self.assertIn("too little memory", err)
        attic = self.join(ticket, "attic")
        self.wait_until(lambda: any(e["event"] == "ready" and e["peer"] == "attic" for e in self.events()), "attic")
        twin = self.join(ticket, "attic")
        code, _, err = self.finish(twin)
        self.assertEqual(code, 1, err)
        self.assertIn("another peer has the same name", err)
        others = [self.join(ticket, name) for name in ("barn", "cellar")]
        self.wait_for_step(3)
        late = self.join(ticket, "late")  # waits for a place
        self.wait_for_event("ready", "late")
        coordinator.send_signal(signal.SIGINT)
        code, _, err = self.finish(coordinator)
        self.assertEqual(code, 130, err)
        for sentence in ("poor was not admitted: has too little memory", "attic was not admitted: another peer"):
            self.assertIn(sentence, err)
        code, _, err = self.finish(late)
        self.assertEqual(code, 1, err)
        self.assertIn("the run is over", err)
        for peer in (attic, *others):
            self.assertEqual(self.finish(peer)[0], 0)


class ChurnTest(SwarmProcessTest):
    """Whatever ends, freezes or is cut off, the others go on."""

    NAMES = ("attic", "barn", "cellar")

    def join_all(self, ticket, *arguments):
        return {name: self.join(ticket, name, *arguments) for name in self.NAMES}

    def assert_all_end_well(self, coordinator, peers):
        for process in (coordinator, *peers):
            code, _, err = self.finish(process)
            self.assertEqual(code, 0, err)

    def assert_whole(self, steps):
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, steps + 1)))
        self.assertTrue(json.loads((self.folder / "run" / "summary.json").read_text())["identical_copies"])

    def take_up(self, *arguments):
        return self.start("coordinate", "--take-up", "--out", "run", *arguments)

    def kill(self, coordinator):
        """In the midst of its run."""
        coordinator.kill()
        self.assertEqual(coordinator.wait(), -signal.SIGKILL, "the run was over before")

    def test_a_coordinator_is_killed_and_another_takes_up_the_run(self):
        for method in ("allreduce", "palsgd"):
            with self.subTest(method=method):
                settings = ("train.steps=200", f"sync.method={method}", "sync.interval=4", "sync.warmup_steps=4",
                            "train.eval_every=50", "train.checkpoint_every=80")
                for run in ("whole", "run"):
                    shutil.rmtree(self.folder / run, ignore_errors=True)
                    coordinator, ticket = self.coordinate(*settings, out=run)
                    # Slow enough that it is not over before another one takes it up.
                    peers = self.join_all(ticket, *(() if run == "whole" else ("--step-time", "150ms")))
                    if run == "whole":
                        self.assert_all_end_well(coordinator, peers.values())
                self.wait_for_step(15)
                second = self.take_up()
                code, _, err = self.finish(second)
                self.assertEqual(code, 2, err)
                self.assertIn("another coordinator has this run", err)
                self.kill(coordinator)
                seen = len(self.metrics())
                time.sleep(2)
                self.assert_all_run(peers.values())
                self.assert_all_end_well(self.take_up(), peers.values())
                self.assert_whole(200)
                self.assertEqual(self.kinds("returned"), list(self.NAMES))
                self.assertEqual(self.kinds("lost"), [])
                self.assertEqual(self.events()[-1]["event"], "checkpoint")
                self.assertGreater(seen, 14)
                self.assertEqual(self.result_lines("run"), self.result_lines("whole"))
                model = "checkpoints/step-200/model.safetensors"
                self.assertEqual((self.folder / "run" / model).read_bytes(),
                                 (self.folder / "whole" / model).read_bytes())
        code, _, err = self.finish(self.start("coordinate", "--take-up", "--out", "nowhere"))
        self.assertEqual(code, 2, err)

    def test_a_peer_that_is_lost_while_nobody_coordinates_is_missed(self):
        coordinator, ticket = self.coordinate("train.steps=150", "sync.method=allreduce", "train.eval_every=0",
                                              "train.checkpoint_every=0")
        peers = self.join_all(ticket, "--step-time", "100ms")
        self.wait_for_step(10)
        self.kill(coordinator)
        peers.pop("barn").kill()
        time.sleep(1)
        self.assert_all_end_well(self.take_up(), peers.values())
        self.assert_whole(150)
        self.assertEqual(self.kinds("lost"), ["barn"])

    def test_a_frozen_coordinator_is_waited_for(self):
        coordinator, ticket = self.coordinate("train.steps=1000000", "sync.method=local-sgd", "sync.interval=4",
                                              "train.eval_every=0", "train.checkpoint_every=0")
        peers = self.join_all(ticket, "--speed", "0.1")
        self.wait_for_step(10)
        coordinator.send_signal(signal.SIGSTOP)
        for peer in peers.values():  # however long it takes them to miss it
            self.wait_for_words(peer, "trying to reach it again")
        coordinator.send_signal(signal.SIGCONT)
        for name in self.NAMES:
            self.wait_for_event("returned", name)
        self.wait_for_step(len(self.metrics()) + 10)
        self.interrupt(coordinator, peers.values())
        steps = [line["step"] for line in self.metrics()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(self.kinds("lost"), [])
        self.assertEqual(set(self.kinds("returned")), set(self.NAMES))

    def test_whoever_waits_for_a_place_waits_for_a_frozen_coordinator_too(self):
        coordinator, ticket = self.coordinate("train.steps=1000000", "sync.method=local-sgd", "sync.interval=4",
                                              "train.eval_every=0", "train.checkpoint_every=0")
        peers = self.join_all(ticket, "--speed", "0.1")
        self.wait_for_step(5)
        spare = self.join(ticket, "den", "--speed", "0.1")
        self.wait_for_event("ready", "den")
        coordinator.send_signal(signal.SIGSTOP)
        self.wait_for_words(spare, "joining again")
        time.sleep(13)  # who dials meanwhile gets no answer for ten seconds
        coordinator.send_signal(signal.SIGCONT)
        self.wait_for_event("ready", "den", times=2)
        for name in self.NAMES:
            self.wait_for_event("returned", name)
        peers.pop("barn").kill()
        self.wait_for_event("began", "den")
        self.interrupt(coordinator, (*peers.values(), spare))
        self.assertEqual(self.kinds("lost"), ["barn"])

    def test_a_peer_that_was_asleep_joins_again(self):
        for method in ("allreduce", "diloco"):
            with self.subTest(method=method):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                coordinator, ticket = self.coordinate("train.steps=100000", f"sync.method={method}", "sync.interval=4",
                                                      "sync.warmup_steps=4", "train.eval_every=0",
                                                      "train.checkpoint_every=0")
                peers = self.join_all(ticket, "--speed", "0.2")
                self.wait_for_step(10)
                peers["cellar"].send_signal(signal.SIGSTOP)
                self.wait_for_event("lost", "cellar")
                peers["cellar"].send_signal(signal.SIGCONT)
                self.wait_for_event("began", "cellar")
                before = len((self.folder / "run/peers/cellar.jsonl").read_text().splitlines())
                self.wait_for_step(before + 5, "run/peers/cellar.jsonl")
                self.interrupt(coordinator, peers.values())
                samples = [line["samples"] for line in self.metrics()]
                self.assertEqual(samples[-1] - samples[-2], samples[0])

    def test_two_come_at_once_and_one_of_them_is_held_up(self):
        """Nobody hands on what it is still being given itself."""
        coordinator, ticket = self.coordinate("train.steps=600", "sync.method=diloco", "sync.interval=4",
                                              "sync.warmup_steps=4", "train.eval_every=0", "train.checkpoint_every=0")
        peers = self.join_all(ticket, "--step-time", "50ms")
        self.wait_for_step(10)
        for name in ("barn", "cellar"):
            peers.pop(name).kill()
            self.wait_for_event("lost", name)
        for name in ("den", "eaves"):
            peers[name] = self.join(ticket, name, "--step-time", "50ms")
        self.wait_for_event("ready", "eaves")
        peers["eaves"].send_signal(signal.SIGSTOP)
        time.sleep(0.4)  # shorter than anybody's patience
        peers["eaves"].send_signal(signal.SIGCONT)
        for name in ("den", "eaves"):
            self.wait_for_event("began", name)
            self.wait_for_step(5, f"run/peers/{name}.jsonl")
        self.assert_all_end_well(coordinator, peers.values())
        self.assert_whole(600)
        self.assertEqual(self.kinds("lost"), ["barn", "cellar"])
        samples = [line["samples"] for line in self.metrics()]
        self.assertEqual(samples[-1] - samples[-2], samples[0])

    def test_a_laptop_s_life(self):
        """Four start; one is killed, two come, one sleeps, the coordinator is killed and another one takes up the run,
        which ends; three go on from the disk."""
        settings = ["swarm.peers=4", "swarm.clusters=4", "train.steps=600", "sync.method=diloco", "sync.interval=5",
                    "sync.warmup_steps=5", "train.eval_every=100", "train.checkpoint_every=200", "train.batch=8"]
        names = ("attic", "barn", "cellar", "den")
        calm = self.start("train", "--out", "calm", settings=self.swarm_settings(*settings))
        self.assertEqual(self.finish(calm)[0], 0)

        coordinator, ticket = self.coordinate(*settings)
        peers = {name: self.join(ticket, name, "--step-time", "100ms") for name in names}
        self.wait_for_step(20)
        peers.pop("barn").kill()
        self.wait_for_event("lost", "barn")
        for name in ("eaves", "flat"):
            peers[name] = self.join(ticket, name, "--step-time", "100ms")
            self.wait_for_event("ready", name)
        self.wait_until(lambda: {"eaves", "flat"} & set(self.kinds("began")), "nobody has taken the place")
        peers["cellar"].send_signal(signal.SIGSTOP)
        self.wait_for_event("lost", "cellar")
        self.wait_until(lambda: {"eaves", "flat"} <= set(self.kinds("began")), "the spare has not taken the place")
        peers["cellar"].send_signal(signal.SIGCONT)  # and waits as a spare from now on
        self.wait_until(lambda: self.kinds("ready").count("cellar") == 2, "cellar did not come again")
        self.kill(coordinator)
        time.sleep(1)
        second = self.take_up()
        code, _, err = self.finish(second)
        self.assertEqual(code, 0, err)
        spare = peers.pop("cellar")
        for name, peer in peers.items():
            code, _, err = self.finish(peer)
            self.assertEqual(code, 0, f"{name}: {err}")
        try:
            spare.wait(timeout=20)
        except subprocess.TimeoutExpired:  # it has come back when the run was over, which it cannot know
            spare.send_signal(signal.SIGINT)
            _, err = spare.communicate(timeout=TIMEOUT)
            self.assertIn("joining again", err)
        self.assert_whole(600)
        self.assertEqual(self.kinds("lost"), ["barn", "cellar"])
        for line in self.metrics():
            self.assertLessEqual(line["samples"], 4 * 8 * line["step"])
        summary, wanted = (json.loads((self.folder / run / "summary.json").read_text()) for run in ("run", "calm"))
        self.assertLess(abs(summary["eval_loss"] / wanted["eval_loss"] - 1), 0.1)

        again = self.run_program("train", "--out", "run", "--resume",
                                 settings=["train.steps=700", "swarm.peers=3", "swarm.clusters=3"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assert_whole(700)
        resumed = json.loads((self.folder / "run" / "summary.json").read_text())
        self.assertLess(resumed["eval_loss"], summary["eval_loss"] * 1.02)

    def test_a_swarm_that_has_grown_is_planned_anew(self):
        """Two train, two more come for whom there is no place: all stop for another plan, and go on as four."""
        coordinator, ticket = self.coordinate("swarm.peers=2", "swarm.clusters=auto", "swarm.goal=samples",
                                              "train.steps=100000", "sync.method=diloco", "sync.interval=4",
                                              "sync.warmup_steps=4", "train.eval_every=0", "train.checkpoint_every=0")
        peers = [self.join(ticket, name, "--speed", "0.1") for name in ("attic", "barn")]
        self.wait_for_step(10)
        peers += [self.join(ticket, name, "--speed", "0.1") for name in ("cellar", "den")]
        self.wait_until(lambda: "another plan is better" in [event.get("reason") for event in self.events()],
                        "there is no other plan")
        done = len(self.metrics())
        self.wait_for_step(done + 10)
        self.interrupt(coordinator, peers)
        samples = [line["samples"] for line in self.metrics()]
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, len(samples) + 1)))
        self.assertEqual(samples[0] * 2, samples[-1] - samples[-2])
        self.assertEqual(self.kinds("lost"), [])
        self.assertEqual(self.kinds("moves"), [""])
        self.assertEqual(self.checkpoints(), [f"step-{len(samples)}"])

    def test_where_no_copy_is_left_a_spare_goes_on_from_what_was_saved(self):
        coordinator, ticket = self.coordinate("swarm.peers=2", "swarm.clusters=auto", "train.steps=100000",
                                              "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=4",
                                              "train.eval_every=0", "train.checkpoint_every=10")
        peers = [self.join(ticket, name, "--step-time", "50ms") for name in ("attic", "barn")]
        self.wait_for_step(3)
        spare = self.join(ticket, "cellar", "--step-time", "50ms")
        self.wait_for_event("ready", "cellar")
        self.wait_until(lambda: self.kinds("checkpoint"), "nothing is saved")
        for peer in peers:
            peer.kill()
        self.wait_until(lambda: "no whole copy was left" in [event.get("reason") for event in self.events()],
                        "nobody goes back")
        self.assertEqual(self.kinds("goes back"), [""])
        done = len(self.metrics())
        self.wait_for_step(done + 20)
        self.interrupt(coordinator, [spare])
        lines = self.metrics()
        self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)))
        self.assertEqual(lines[0]["samples"], 2 * (lines[-1]["samples"] - lines[-2]["samples"]))
        rewound = [event["text"] for event in self.events() if event["event"] == "rewound"]
        self.assertEqual(len(rewound), 1)
        self.assertRegex(rewound[0], r"to step \d*0:")  # a checkpoint

    def test_a_link_that_is_cut_costs_one_of_two_its_place_for_a_while(self):
        swarm = self.start_swarm("train.steps=500", "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=0",
                                 "train.eval_every=0", "train.checkpoint_every=0",
                                 *(f"peer.{i}.step_time=50ms" for i in range(self.PEERS)))
        self.wait_for_step(10)
        pids = self.children(swarm.pid)
        os.kill(pids[1], signal.SIGUSR1)
        self.wait_until(lambda: self.kinds("lost"), "nobody is lost")
        self.wait_for_event("began", self.kinds("lost")[0])
        code, _, err = self.finish(swarm)
        self.assertEqual(code, 0, err)
        self.assert_whole(500)
        self.assertEqual(len(self.kinds("lost")), 1)
        self.assert_nothing_is_left(pids)


class PipelineTest(SwarmProcessTest):
    """Models that several processes share."""

    LARGE = ["model.layers=6", "model.width=32", "model.heads=2", "model.context=32", "train.batch=8",
             "train.micro_batches=4", "train.threads=1", "train.eval_batches=2"]

    def swarm_settings(self, *settings):
        return [*self.LARGE, *settings]

    def run_swarm(self, *settings, arguments=(), out="run", **options):
        return self.run_program("train", "--out", out, *arguments, settings=self.swarm_settings(*settings), **options)

    def summary(self, run="run"):
        return json.loads((self.folder / run / "summary.json").read_text())

    def test_unequal_clusters_train_one_model(self):
        result = self.run_swarm("swarm.peers=10", "swarm.clusters=[2, 3, 5]", "pipeline.schedule=async",
                                "train.steps=12", "train.eval_every=6", "sync.method=palsgd", "sync.interval=4",
                                "sync.warmup_steps=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("cluster 1: peer-2 (layers 0 to", result.stderr)
        summary = self.summary()
        self.assertIs(summary["identical_copies"], True)
        peers = summary["peers"]
        self.assertEqual([(peer["cluster"], peer["stage"]) for peer in peers],
                         [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)])
        for cluster in range(3):
            cut = [peer["layers"] for peer in peers if peer["cluster"] == cluster]
            self.assertEqual((cut[0][0], cut[-1][1]), (0, 8))
            self.assertEqual([begin for begin, _ in cut[1:]], [end for _, end in cut[:-1]])
        for peer in peers:
            # Each micro-batch is counted once, and none is staler than its place in the pipeline allows.
            self.assertGreater(sum(peer["staleness"]), 0)
            self.assertGreater(peer["planned_memory_bytes"], 0)
        lines = self.metrics()
        self.assertEqual([line["step"] for line in lines], list(range(1, 13)))
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])
        self.assertGreater(max(line["staleness_max"] for line in lines), 0)
        planned = [event for event in self.events() if event["event"] == "planned"]
        self.assertIn("kept one by palsgd", planned[0]["text"])

        folder = self.folder / "run/checkpoints/step-12"
        self.assertTrue((folder / "model-00002-of-00002.safetensors").exists())
        result = self.run_program("export", "run", "whole.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        shards = json.loads(self.run_program("inspect", folder, "--json").stdout)["tensors"]
        whole = json.loads(self.run_program("inspect", "whole.safetensors", "--json").stdout)["tensors"]
        self.assertEqual({tensor["name"] for tensor in shards}, {tensor["name"] for tensor in whole})

    def test_text_goes_through_a_pipeline(self):
        self.assertEqual(self.run_swarm("train.steps=60", out="one").returncode, 0)
        shutil.copytree(self.folder / "one", self.folder / "three")
        result = self.run_swarm("train.steps=60", "swarm.peers=3", "swarm.clusters=1", arguments=["--resume"],
                                out="three")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.folder / "three/checkpoints/step-60/model-00003-of-00003.safetensors").exists())
        texts = [self.run_program("generate", run, "--prompt", "Once", "--tokens", 100) for run in ("one", "three")]
        self.assertEqual([text.returncode for text in texts], [0, 0], texts[1].stderr)
        self.assertEqual(texts[0].stdout, texts[1].stdout)

    def test_a_run_goes_on_with_another_cut(self):
        settings = ("pipeline.schedule=1f1b", "sync.method=allreduce", "train.eval_every=5")
        cuts = {3: ("swarm.peers=3", "swarm.clusters=1"), 2: ("swarm.peers=2", "pipeline.stages=[[0, 2], [2, 8]]"),
                1: ("swarm.peers=1",)}
        self.assertEqual(self.run_swarm(*settings, *cuts[3], "train.steps=10").returncode, 0)
        before = self.metrics()[-1]["eval_loss"]
        losses = []
        for stages, cut in cuts.items():
            shutil.copytree(self.folder / "run", self.folder / f"run{stages}")
            (self.folder / f"run{stages}/summary.json").unlink()
            # Nothing is left to do but to look at it again; then it goes on.
            result = self.run_swarm(*settings, *cut, "train.steps=10", arguments=["--resume"], out=f"run{stages}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertAlmostEqual(self.summary(f"run{stages}")["eval_loss"], before, delta=2e-5 * before)
            result = self.run_swarm(*settings, *cut, "train.steps=15", arguments=["--resume"], out=f"run{stages}")
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append([line["loss"] for line in self.metrics(f"run{stages}")])
        for other in losses[1:]:
            for ours, theirs in zip(losses[0], other, strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-4 * ours)

    def test_an_interrupted_pipeline_goes_on(self):
        settings = ("swarm.peers=3", "swarm.clusters=[1, 2]", "sync.method=diloco", "sync.interval=5",
                    "train.steps=100000", "peer.0.step_time=20ms")
        swarm = self.start_swarm(*settings)
        self.wait_for_step(7)
        swarm.send_signal(signal.SIGINT)
        code, _, err = self.finish(swarm)
        self.assertEqual(code, 130, err)
        step = len(self.metrics())
        self.assertEqual(self.checkpoints(), [f"step-{step}"])
        result = self.run_swarm(*settings[:4], f"train.steps={step + 5}", arguments=["--resume"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, step + 6)))

    def test_a_lost_stage_ends_the_run_with_its_name(self):
        for signal_number in (signal.SIGKILL, signal.SIGSTOP):
            swarm = self.start_swarm("swarm.peers=3", "swarm.clusters=[3]", "train.steps=100000", "peer.0.step_time=20ms",
                                     "train.checkpoint_every=5")
            self.wait_for_step(7)
            pids = self.children(swarm.pid)
            os.kill(pids[1], signal_number)
            code, _, err = self.finish(swarm)
            self.assertEqual(code, 1, err)
            self.assertIn("peer-1", err)
            self.assert_nothing_is_left(pids, killed=pids[1:2])
            result = self.run_swarm("swarm.peers=2", "train.steps=8", arguments=["--resume"])
            # The last checkpoint is whole.
            self.assertIn(result.returncode, (0, 2), result.stderr)
            shutil.rmtree(self.folder / "run")

    def test_somebody_new_takes_the_place_of_a_stage(self):
        cases = (("allreduce", "1f1b", signal.SIGKILL), ("diloco", "async", signal.SIGKILL),
                 ("palsgd", "1f1b", signal.SIGSTOP), ("gossip", "1f1b", signal.SIGKILL))
        for method, schedule, signal_number in cases:
            with self.subTest(method=method, schedule=schedule):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                coordinator, ticket = self.coordinate(
                    "swarm.peers=4", "swarm.clusters=[2, 2]", "train.steps=100000", f"sync.method={method}",
                    f"pipeline.schedule={schedule}", "sync.interval=4", "sync.warmup_steps=4", "train.eval_every=0",
                    "train.checkpoint_every=0")
                peers = {name: self.join(ticket, name, "--speed", "0.3")
                         for name in ("attic", "barn", "cellar", "den")}
                self.wait_for_step(5)
                peers["barn"].send_signal(signal_number)
                self.wait_for_event("lost", "barn")
                before = len(self.metrics())
                self.wait_for_step(before + 5)  # the other cluster goes on
                new = self.join(ticket, "eaves", "--speed", "0.3")
                for name in ("attic", "eaves"):
                    self.wait_for_event("began", name)
                    self.wait_for_step(5 if name == "eaves" else before, f"run/peers/{name}.jsonl")
                coordinator.send_signal(signal.SIGINT)
                code, _, err = self.finish(coordinator)
                self.assertEqual(code, 130, err)
                peers.pop("barn").kill()
                for process in (*peers.values(), new):
                    code, _, err = self.finish(process)
                    self.assertEqual(code, 0, err)
                lines = self.metrics()
                self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)))
                samples = [line["samples"] for line in lines]
                if method != "palsgd":  # both clusters do their part in the end
                    self.assertEqual(samples[-1] - samples[-2], samples[0])
                self.assertEqual(self.checkpoints(), [f"step-{len(lines)}"])

    def test_a_lone_cluster_goes_back_to_the_copies_that_its_stages_have_of_each_other(self):
        for schedule in ("1f1b", "async"):
            with self.subTest(schedule=schedule):
                settings = ("swarm.peers=3", "swarm.clusters=[3]", "train.steps=80", "swarm.buddy_every=5",
                            "pipeline.stages=[[0, 3], [3, 6], [6, 8]]",
                            f"pipeline.schedule={schedule}", "train.eval_every=40", "train.checkpoint_every=0")
                for run in ("whole", "run"):
                    shutil.rmtree(self.folder / run, ignore_errors=True)
                    coordinator, ticket = self.coordinate(*settings, out=run)
                    pace = () if run == "whole" else ("--step-time", "100ms")
                    peers = {name: self.join(ticket, name, *pace) for name in ("attic", "barn", "cellar")}
                    if run == "whole":
                        self.assertEqual(self.finish(coordinator)[0], 0)
                for victim, heir in (("barn", "den"), ("attic", "eaves")):
                    done = len(self.metrics())
                    self.wait_for_step(done + 13)
                    peers.pop(victim).kill()
                    self.wait_for_event("lost", victim)
                    peers[heir] = self.join(ticket, heir, *pace)
                    self.wait_for_event("began", heir)
                for process in (coordinator, *peers.values()):
                    code, _, err = self.finish(process)
                    self.assertEqual(code, 0, err)
                lines = self.metrics()
                self.assertEqual([line["step"] for line in lines], list(range(1, 81)))
                # All go back once for whoever was lost; also for a peer that has stood in until an heir was there.
                repeated = self.summary()["repeated"]
                stood_in = [name for name in self.kinds("lost") if name not in ("attic", "barn")]
                self.assertLessEqual(len(stood_in), len(self.kinds("stands in")))
                self.assertIn(len(repeated), range(2, 3 + len(stood_in)))
                for steps in repeated:  # as many as lie between two copies, and what a copy takes
                    self.assertEqual(steps["first_step"] % 5, 1)
                    self.assertLess(steps["last_step"] - steps["first_step"], 15)
                if schedule == "1f1b":  # to the last bit
                    self.assertEqual(self.result_lines("run"), self.result_lines("whole"))

    def test_one_of_a_cluster_stands_in_where_nobody_comes(self):
        coordinator, ticket = self.coordinate("swarm.peers=4", "swarm.clusters=[2, 2]", "train.steps=100000",
                                              "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=4",
                                              "train.eval_every=0", "train.checkpoint_every=0")
        peers = {name: self.join(ticket, name, "--speed", "0.2") for name in ("attic", "barn", "cellar", "den")}
        self.wait_for_step(5)
        peers.pop("barn").kill()
        self.wait_until(lambda: "stands in" in {event["event"] for event in self.events()}, "nobody stands in")
        stand_in = next(event["peer"] for event in self.events() if event["event"] == "stands in") + "-2"
        self.wait_for_event("began", stand_in)
        self.wait_for_step(10, f"run/peers/{stand_in}.jsonl")
        peers["eaves"] = self.join(ticket, "eaves", "--speed", "0.2")  # relieves it
        self.wait_for_event("began", "eaves")
        self.wait_for_step(10, "run/peers/eaves.jsonl")
        self.interrupt(coordinator, peers.values())
        samples = [line["samples"] for line in self.metrics()]
        self.assertEqual(samples[-1] - samples[-2], samples[0])
        self.assertEqual(self.checkpoints(), [f"step-{len(samples)}"])

    def test_a_cluster_of_which_nobody_is_left_is_made_up_of_others(self):
        coordinator, ticket = self.coordinate("swarm.peers=4", "swarm.clusters=[2, 2]", "train.steps=100000",
                                              "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=4",
                                              "train.eval_every=0", "train.checkpoint_every=0")
        peers = {name: self.join(ticket, name, "--speed", "0.2") for name in ("attic", "barn", "cellar", "den")}
        self.wait_for_step(5)
        for name in ("attic", "barn"):
            peers.pop(name).kill()
        for name in ("attic", "barn"):
            self.wait_for_event("lost", name)
        for name in ("eaves", "flat"):
            peers[name] = self.join(ticket, name, "--speed", "0.2")
        for name in ("eaves", "flat"):
            self.wait_for_event("began", name)
            self.wait_for_step(5, f"run/peers/{name}.jsonl")
        self.interrupt(coordinator, peers.values())
        self.assertEqual(self.kinds("lost"), ["attic", "barn"])

    def test_a_stage_that_waits_in_vain_ends_with_the_others(self):
        swarm = self.start_swarm("swarm.peers=4", "swarm.clusters=[2, 2]", "train.steps=150", "sync.method=allreduce",
                                 "peer.0.step_time=20ms", "train.checkpoint_every=0")
        self.wait_for_step(7)
        pids = self.children(swarm.pid)
        os.kill(pids[1], signal.SIGKILL)
        code, _, err = self.finish(swarm)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(self.metrics()), 150)
        self.assertTrue(any(event["event"] == "lost" for event in self.events()))
        self.assert_nothing_is_left(pids, killed=pids[1:2])

    def test_a_model_that_fits_on_no_peer_trains(self):
        """No peer may have more than 35% of what one process needs beside the program itself. The kernel sees to it."""
        settings = ["model.layers=16", "model.width=320", "model.heads=5", "model.context=32", "train.batch=8",
                    "train.micro_batches=8", "train.threads=1", "train.eval_batches=1", "train.steps=3"]
        alone = self.run_program("train", "--out", "alone", settings=settings)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        one = self.summary("alone")["peers"][0]
        allowed = int(0.35 * (one["peak_memory_bytes"] - one["own_memory_bytes"]))

        def memory_of(pid, field):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

        def run(out, peers, *arguments, memory, limits=None):
            coordinator = self.start("coordinate", "--listen", "127.0.0.1:0", "--out", out,
                                     settings=[*settings, "swarm.peers=4", *arguments])
            ticket = coordinator.stdout.readline().split()[2]
            return coordinator, [self.join(ticket, f"peer-{i}", "--memory", memory, preexec_fn=limits)
                                 for i in range(peers)]

        # What a peer takes before it holds any layer, and so the most that it may ever take.
        coordinator, idle = run("idle", 1, memory="100GiB")
        self.wait_until(lambda: (self.folder / "idle/events.jsonl").exists() and
                        any(event["event"] == "ready" for event in self.events("idle")), "ready")
        limit, data_limit = (memory_of(idle[0].pid, field) + allowed for field in ("VmRSS:", "VmData:"))
        for process in (coordinator, *idle):
            process.kill()

        def limits():
            resource.setrlimit(resource.RLIMIT_DATA, (data_limit, data_limit))

        for schedule in ("1f1b", "async"):
            coordinator, peers = run("run", 4, f"pipeline.schedule={schedule}", "pipeline.weights=latest",
                                     memory=f"{limit}B", limits=limits)
            code, _, err = self.finish(coordinator)
            self.assertEqual(code, 0, err)
            summary = self.summary()
            self.assertEqual(sorted(peer["stage"] for peer in summary["peers"]), [0, 1, 2, 3])
            for peer, process in zip(summary["peers"], peers, strict=True):
                self.assertEqual(self.finish(process)[0], 0)
                self.assertLessEqual(peer["peak_memory_bytes"], limit, peer)
            self.assertLess(self.metrics()[-1]["loss"], self.metrics()[0]["loss"])

        # One of them alone could not have done it.
        whole = self.start("train", "--out", "whole", settings=settings, preexec_fn=limits)
        code, _, err = self.finish(whole)
        self.assertEqual(code, 1, err)
        self.assertIn("memory", err)

    def test_a_trace_shows_what_every_peer_did(self):
        result = self.run_swarm("swarm.peers=3", "swarm.clusters=[1, 2]", "train.steps=4", "sync.method=local-sgd",
                                "sync.interval=2", "train.eval_batches=0", arguments=["--trace"])
        self.assertEqual(result.returncode, 0, result.stderr)
        events = json.loads((self.folder / "run/trace.json").read_text())["traceEvents"]
        names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {"peer-0": 0, "peer-1": 1, "peer-2": 2})
        for peer, sends in enumerate((set(), {"send forward"}, {"send backward"})):
            own = {event["name"] for event in events if event["pid"] == peer}
            self.assertLessEqual({"forward", "backward", "update", "average"} | sends, own)
            for what in ("forward", "backward"):
                self.assertEqual([event["args"]["number"] for event in events
                                  if event["pid"] == peer and event["name"] == what], list(range(16)))
        self.assertEqual(self.run_swarm("swarm.peers=1", "train.steps=2", arguments=["--trace"], out="one").returncode, 0)
        alone = json.loads((self.folder / "one/trace.json").read_text())["traceEvents"]
        self.assertLessEqual({"forward and backward", "update", "checkpoint"}, {event["name"] for event in alone})

    def test_a_plan_says_who_holds_what(self):
        settings = self.swarm_settings("swarm.peers=5", "swarm.clusters=[2, 3]", "pipeline.schedule=async")
        result = self.run_program("plan", "--show", "schedule", settings=settings)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("async", "peer-4", "peer-1, peer-4", "cluster 1", "stage 2"):
            self.assertIn(words, result.stdout)
        plan = json.loads(self.run_program("plan", "--json", "--show", "schedule", settings=settings).stdout)
        self.assertEqual([len(cluster) for cluster in plan["clusters"]], [2, 3])
        self.assertEqual((plan["segments"][0]["layers"][0], plan["segments"][-1]["layers"][1]), (0, 8))
        forwards = [action["micro_batch"] for action in plan["schedule_actions"]
                    if (action["cluster"], action["stage"], action["action"]) == (1, 2, "forward")]
        self.assertEqual(forwards, list(range(8)))
        self.assert_wrong_input(self.run_program("plan", "--show", "cards", settings=settings), "--show", "schedule")

    def test_cuts_that_cannot_be_are_refused_in_one_sentence(self):
        for settings, *said in (
                (("swarm.peers=2", "pipeline.stages=[[0, 3], [3, 9]]"), "pipeline.stages", "8 layers"),
                (("swarm.peers=2", "pipeline.stages=[[0, 3], [3, 7]]"), "pipeline.stages", "8"),
                (("swarm.peers=2", "pipeline.stages=[[0, 3], [4, 8]]"), "pipeline.stages", "without gaps"),
                (("swarm.peers=3", "pipeline.stages=[[0, 3], [3, 8]]"), "pipeline.stages", "swarm.clusters"),
                (("swarm.peers=9", "swarm.clusters=1"), "9", "8 layers"),
                (("swarm.peers=3", "swarm.clusters=[2, 2]"), "swarm.clusters", "4 peers"),
                (("swarm.peers=2", "swarm.clusters=1", "train.micro_batches=4", "pipeline.update_frequency=3"),
                 "update_frequency", "micro_batches")):
            self.assert_wrong_input(self.run_swarm(*settings), *said)
            self.assertFalse((self.folder / "run").exists())


class DashboardTest(SwarmProcessTest):
    """What a run shows while it goes on, to programs and in a terminal; tests/browser has the page."""

    LONG = ("train.steps=100000", "sync.method=diloco", "sync.interval=4", "sync.warmup_steps=0")

    def show(self, *settings):
        """A local swarm that trains, and where its dashboard is."""
        swarm = self.start("train", "--out", "run", settings=self.swarm_settings(*self.LONG, *settings))
        for line in swarm.stderr:
            if line.startswith("dashboard: "):
                return swarm, line.split()[1]
        self.fail("there is no dashboard")

    @staticmethod
    def parts(url):
        """Scheme, host and port, token."""
        address, _, fragment = url.partition("/#")
        return address, dict(part.split("=", 1) for part in fragment.split("&"))["token"]

    def ask(self, url, path, method="GET", token=None, **fields):
        """Status, content and fields of an answer."""
        headers = {**fields, **({"Authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(url.partition("#")[0].rstrip("/") + path, method=method, headers=headers)
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=trusting if url.startswith("https") else None) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), dict(error.headers)

    def state(self, url):
        return json.loads(self.ask(url, "/api/state")[1])

    def stop(self, swarm, url):
        self.assertEqual(self.ask(url, "/api/stop", "POST", self.parts(url)[1])[0], 202)
        self.assertEqual(self.finish(swarm)[0], 130)

    def test_a_swarm_can_be_watched_held_saved_and_stopped(self):
        swarm, url = self.show()
        token = self.parts(url)[1]
        self.wait_until(lambda: self.state(url)["run"]["step"] > 3, "steps")
        state = self.state(url)
        self.assertEqual([peer["state"] for peer in state["peers"]], ["training"] * self.PEERS)
        self.assertEqual([peer["layers"] for peer in state["peers"]], [[0, 3]] * self.PEERS)
        self.assertEqual(len(state["series"]["rows"][0]), len(state["series"]["columns"]))
        lines = {line["step"]: line["loss"] for line in self.metrics()}
        for row in state["series"]["rows"]:
            self.assertAlmostEqual(row[2], lines[row[0]], places=4)
        self.wait_until(lambda: all(self.state(url)["spans"].get(f"peer-{i}") for i in range(self.PEERS)), "spans")

        self.assertEqual(self.ask(url, "/api/pause", "POST", token)[0], 202)
        self.wait_until(lambda: self.state(url)["run"]["phase"] == "paused", "a pause")
        held = self.state(url)["run"]["step"]
        self.assertEqual(self.ask(url, "/api/pause", "POST", token)[0], 409)
        self.assertEqual(self.ask(url, "/api/checkpoint", "POST", token)[0], 202)
        # The last of the steps that were under way: nobody goes beyond it. There may have been checkpoints before.
        saved = lambda: max((int(event["text"].removeprefix("at step ")) for event in self.state(url)["events"]
                             if event["event"] == "checkpoint"), default=-1)
        self.wait_until(lambda: saved() >= held, "a checkpoint")
        last = saved()
        self.assertLessEqual(self.state(url)["run"]["step"], last)
        self.assertEqual(self.state(url)["run"]["phase"], "paused")
        self.assertEqual(self.ask(url, "/api/resume", "POST", token)[0], 202)
        self.wait_until(lambda: self.state(url)["run"]["step"] > last + 3, "steps after the pause")
        self.stop(swarm, url)
        self.assertTrue(self.checkpoints())

    def test_a_lone_run_can_be_watched_held_saved_and_stopped(self):
        self.PEERS = 1
        swarm, url = self.show("sync.method=auto", "swarm.clusters=auto", "train.checkpoint_every=100000")
        token = self.parts(url)[1]
        self.wait_until(lambda: self.state(url)["run"]["step"] > 3, "steps")
        state = self.state(url)
        self.assertGreater(state["plan"]["predicted_step_seconds"], 0)
        memory = state["peers"][0]["memory"]
        self.assertGreater(memory["planned"], 0)
        self.assertGreater(memory["available"], memory["resident"])

        self.assertEqual(self.ask(url, "/api/pause", "POST", token)[0], 202)
        self.wait_until(lambda: self.state(url)["run"]["phase"] == "paused", "a pause")
        held = self.state(url)["run"]["step"]
        self.assertEqual(self.ask(url, "/api/checkpoint", "POST", token)[0], 202)
        events = lambda: [(event["event"], event["text"]) for event in self.state(url)["events"]]
        self.wait_until(lambda: ("checkpoint", f"at step {held}") in events(), "a checkpoint")
        self.assertTrue(self.checkpoints())
        self.wait_until(lambda: any("checkpoint at step" in line for line in self.state(url)["peers"][0]["log"]), "its log")
        self.assertEqual(self.state(url)["run"]["phase"], "paused")
        self.assertEqual(self.state(url)["run"]["step"], held)
        self.assertEqual(self.ask(url, "/api/resume", "POST", token)[0], 202)
        self.wait_until(lambda: self.state(url)["run"]["step"] > held + 3, "steps after the pause")
        self.assertEqual([event for event, _ in events()], ["began", "paused", "checkpoint", "resumed"])
        self.assertLessEqual({"backward", "wait"}, {kind for kind, _, _ in self.state(url)["spans"]["peer-0"]})
        self.assertEqual(self.ask(url, "/api/checkpoint", "POST", token)[0], 202)
        self.wait_until(lambda: [event for event, _ in events()].count("checkpoint") == 2, "another checkpoint")
        self.stop(swarm, url)

    def test_whoever_is_lost_and_comes_is_shown(self):
        coordinator, ticket = self.coordinate(*self.LONG)
        url = next(line.split()[1] for line in coordinator.stderr if line.startswith("dashboard: "))
        peers = {name: self.join(ticket, name) for name in ("attic", "barn", "cellar")}
        state_of = lambda name: {peer["name"]: peer["state"] for peer in self.state(url)["peers"]}.get(name)
        self.wait_until(lambda: all(state_of(name) == "training" for name in peers), "all train")
        generation = self.state(url)["plan"]["generation"]
        peers["barn"].kill()
        self.wait_until(lambda: state_of("barn") == "lost", "barn is lost")
        self.wait_until(lambda: self.state(url)["plan"]["generation"] > generation, "another plan")
        self.assertIn(("lost", "barn"), [(event["event"], event["peer"]) for event in self.state(url)["events"]])
        planned = lambda: [event for event in self.events() if event["event"] == "planned"]
        self.wait_until(lambda: "barn was lost" in [event["reason"] for event in planned()], "why there is another plan")
        self.assertEqual([event["generation"] for event in planned()], list(range(1, len(planned()) + 1)))
        predicted = self.state(url)["plan"]["predicted_step_seconds"]
        self.assertAlmostEqual(planned()[0].get("predicted_step_seconds", 0), predicted or 0, places=4)
        self.join(ticket, "loft")
        self.wait_until(lambda: state_of("loft") == "training", "loft trains")
        watched = self.run_program("watch", ticket, "--once")
        self.assertEqual(watched.returncode, 0, watched.stderr)
        self.assertRegex(watched.stdout, r"loft +training")
        one = self.run_program("watch", url, "--once", "--peer", "loft")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertRegex(one.stdout, r"memory +[\d.]+ .iB resident")
        self.assertNotIn("attic", one.stdout.partition("received")[0])
        self.assertEqual(json.loads(self.run_program("watch", url, "--json").stdout)["run"]["name"], "run")
        self.assertEqual(self.ask(url, "/api/stop", "POST", self.parts(url)[1])[0], 202)
        self.assertEqual(self.finish(coordinator)[0], 130)

    def test_prometheus_reads_the_metrics(self):
        swarm, url = self.show()
        self.wait_until(lambda: self.state(url)["run"]["step"] > 3, "steps")
        page = self.ask(url, "/metrics")[1]
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True,
                                 check=False, timeout=TIMEOUT)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""), page)
        self.assertIn('rookery_peer_step{peer="peer-1"}', page)
        self.stop(swarm, url)

    def test_beyond_this_computer_there_is_nothing_without_the_token(self):
        swarm, url = self.show("dashboard.listen=0.0.0.0:0")
        address, token = self.parts(url)
        self.assertTrue(address.startswith("https://"))
        self.assertNotIn("0.0.0.0", address)
        self.assertEqual(self.ask(url, "/api/state", token=token)[0], 200)  # at the address that was printed
        here = url.replace(urllib.parse.urlsplit(address).netloc.rpartition(":")[0], "127.0.0.1")
        for path in ("/", "/index.html", "/api/state", "/api/live", "/api/session", "/metrics", "/assets/../run.toml"):
            for wrong in (None, "0" * 32):
                status, text, fields = self.ask(here, path, token=wrong, Cookie=f"rookery={token}; token={token}")
                self.assertEqual(status, 401, path)
                self.assertNotIn(token, text)
                self.assertNotIn("parameters", text)
                self.assertNotIn("Set-Cookie", fields)
        self.assertEqual(self.ask(here, "/assets/app.js")[0], 200)  # of the page that asks for the token
        self.assertEqual(self.ask(here, "/api/stop", "POST")[0], 401)
        self.assertEqual(self.ask(here, "/api/state", token=token)[0], 200)
        self.assertEqual(self.ask(here, "/api/stop", "POST", token, Origin="https://evil.example")[0], 403)
        watched = self.run_program("watch", here, "--once")
        self.assertEqual(watched.returncode, 0, watched.stderr)
        certificate = here.rpartition("=")[2]
        other = self.run_program("watch", here.replace(certificate, certificate[:-2] + "00"), "--once")
        self.assertEqual(other.returncode, 1)
        self.assertIn("another certificate", other.stderr)
        self.assertEqual(self.ask(here, "/api/stop", "POST", token)[0], 202)
        self.assertEqual(self.finish(swarm)[0], 130)

    def test_hostile_visitors_do_not_disturb_the_run(self):
        swarm, url = self.show()
        port = int(self.parts(url)[0].rpartition(":")[2])
        self.wait_until(lambda: self.state(url)["run"]["step"] > 1, "a step")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # often not many more than a thousand
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
        before = self.state(url)["run"]["step"]
        for bytes_sent in (b"\0" * 100000, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100000,
                           b"POST /api/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as visitor:
                with contextlib.suppress(OSError):
                    visitor.sendall(bytes_sent)
        self.wait_until(lambda: self.state(url)["run"]["step"] > before + 3, "steps meanwhile")
        for connection in idle:
            connection.close()
        self.stop(swarm, url)

    def test_whoever_watches_is_told_that_the_connection_was_lost_and_goes_on(self):
        def answer(listener, phase):
            brief = json.dumps({"run": {"name": "tales", "phase": phase}})
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(brief)}\r\n\r\n{brief}".encode())

        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(TIMEOUT)
            port = listener.getsockname()[1]
            watching = self.start("watch", f"http://127.0.0.1:{port}/", "--every", "0.1")
            answer(listener, "training")
        self.assertIn("training", watching.stdout.readline())
        self.assertIn("connection lost, trying again", watching.stderr.readline())
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(TIMEOUT)
            answer(listener, "ended")
            code, out, err = self.finish(watching)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("ended", out)

    def test_wrong_addresses_are_refused_in_one_sentence(self):
        self.assert_wrong_input(self.run_program("watch", "nonsense"), "http://")
        result = self.run_program("watch", "http://127.0.0.1:1/", "--once")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot be reached", result.stderr)
        taken = socket.create_server(("127.0.0.1", 0))
        with taken:
            self.assert_wrong_input(self.train(f"dashboard.listen=127.0.0.1:{taken.getsockname()[1]}"), "dashboard.listen")

    def test_tensorboard_files_are_what_others_read(self):
        self.assertEqual(self.train("train.steps=6", "train.eval_every=3").returncode, 0)
        (path,) = (self.folder / "run" / "tensorboard").iterdir()
        values = {}
        for step, tag, value in tensorboard.scalars(path.read_bytes()):
            values.setdefault(tag, {})[step] = value
        lines = self.metrics()
        self.assertEqual(sorted(values["loss"]), [1, 2, 3, 4, 5, 6])
        for line in lines:
            self.assertAlmostEqual(values["loss"][line["step"]], line["loss"], places=5)
        self.assertEqual({step: round(value, 4) for step, value in values["eval_loss"].items()},
                         {line["step"]: round(line["eval_loss"], 4) for line in lines if "eval_loss" in line})


class PlanTest(SwarmProcessTest):
    """What is known before a run, and what a run makes of it."""

    PEERS_FILE = """
        [[peer]]
        name = "lab"
        count = 3
        speed = 2.0
        memory = "4GiB"
        network = "campus"
        [[peer]]
        name = "laptop"
        speed = 0.5
        network = "home-broadband"
        uplink = "40mbit"
        [[link]]
        from = "lab"
        to = "laptop"
        bandwidth = "100mbit"
        latency = "5ms"
        """

    def plan(self, *arguments, settings=(), peers=None):
        if peers is not None:
            (self.folder / "peers.toml").write_text(peers)
            arguments = [*arguments, "--peers", "peers.toml"]
        return self.run_program("plan", *arguments, settings=[*TINY, *settings])

    def test_computers_that_are_not_there_are_planned_with(self):
        result = self.plan("--plot", "plan.svg", peers=self.PEERS_FILE)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("4 peers", "lab-2", "laptop", "allreduce", "diloco", "gossip", "chosen", "times as fast"):
            self.assertIn(words, result.stdout)
        picture = (self.folder / "plan.svg").read_text()
        self.assertTrue(picture.startswith("<svg") or picture.startswith("<?xml"))
        self.assertIn("palsgd", picture)
        plan = json.loads(self.plan("--json", peers=self.PEERS_FILE).stdout)
        names = sorted(stage["peer"] for cluster in plan["clusters"] for stage in cluster)
        self.assertEqual(names, ["lab-0", "lab-1", "lab-2", "laptop"])
        choices = {(o["method"], o["schedule"], o["clusters"]) for o in plan["options"]}
        self.assertEqual(len(plan["options"]), len(choices))
        self.assertEqual({o["clusters"] for o in plan["options"]}, {2, 3, 4})  # it has three layers
        self.assertTrue(all("why_not" in option for option in plan["options"][1:]))
        self.assertGreater(plan["predicted_step_seconds"], 0)

    def test_the_file_says_how_many_there_are(self):
        """Whatever the settings say of their number, and of local peers."""
        names = ["lab-0", "lab-1", "lab-2", "laptop"]
        planned = lambda result: sorted(stage["peer"] for cluster in json.loads(result.stdout)["clusters"]
                                        for stage in cluster)
        result = self.plan("--json", peers=self.PEERS_FILE, settings=["swarm.peers=8"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(planned(result), names)
        self.assert_wrong_input(self.plan(peers=self.PEERS_FILE, settings=["swarm.peers=8", "swarm.clusters=8"]),
                                "swarm.clusters (8)", "swarm.peers (4)")
        (self.folder / "run.toml").write_text("[swarm]\npeers = 4\n" + 4 * "[[peer]]\nspeed = 0.5\n")
        result = self.plan("run.toml", "--json", peers="[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(planned(result), ["a", "b"])

    def test_what_is_fixed_is_not_planned(self):
        plan = json.loads(self.plan("--json", peers=self.PEERS_FILE,
                                    settings=["sync.method=diloco", "swarm.clusters=[1, 3]",
                                              "pipeline.schedule=gpipe"]).stdout)
        self.assertEqual([len(cluster) for cluster in plan["clusters"]], [1, 3])
        self.assertEqual({option["method"] for option in plan["options"]}, {"diloco"})
        self.assertEqual(plan["schedule"], "gpipe")

    def test_slow_links_make_talking_less_worth_it(self):
        slow = "[[peer]]\ncount = 4\nstep_time = '100ms'\nuplink = '100kbit'\ndownlink = '100kbit'\n"
        fast = "[[peer]]\ncount = 4\nstep_time = '100ms'\nnetwork = 'datacenter'\n"
        clusters = ["swarm.clusters=4", "model.width=128", "model.context=64", "train.batch=8"]
        self.assertIn(json.loads(self.plan("--json", peers=slow, settings=clusters).stdout)["method"],
                      ("local-sgd", "diloco", "palsgd"))
        self.assertEqual(json.loads(self.plan("--json", peers=fast, settings=clusters).stdout)["method"], "allreduce")

    def test_swarms_that_cannot_be_are_refused_in_one_sentence(self):
        for text, *said in (
                ("", "peers.toml", "no peer"),
                ("[[peer]]\nspeed = -1\n", "peers.toml:2", "speed"),
                ("[[peer]]\nspeed = 1e300\n", "speed"),
                ("[[peer]]\nnetwork = 'lann'\n", "network", "lan"),
                ("[[peer]]\nname = 'a'\n[[link]]\nfrom = 'a'\nto = 'b'\nbandwidth = '1mbit'\n", "no such peer"),
                ("[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\n[[link]]\nfrom = 'a'\nto = 'b'\n"
                 "bandwidth = '0bit'\n", "from a to b"),
                ("[[peer]]\nname = 'a'\nmemory = '1kB'\n[[peer]]\nmemory = '1kB'\n", "does not fit", "would"),
                ("[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\nmemory = '1kB'\n[[peer]]\nname = 'c'\n",
                 "does not fit", "b cannot hold even the smallest layer", "the others can train without it"),
                ("[[peer]]\nname = 'lab'\ncount = 10000\n[[link]]\nfrom = 'lab'\nto = 'lab'\nlatency = '1ms'\n",
                 "from 10000 'lab' to 10000 'lab'", "too many links"),
                ("[[peer]]\nspeeed = 1\n", "peers.toml:2", "speeed")):
            self.assert_wrong_input(self.plan(peers=text), *said)
        self.assert_wrong_input(self.plan("--peers", "nowhere.toml"), "nowhere.toml")

    def test_a_run_decides_for_itself_and_says_what_it_expects(self):
        process = self.start("train", "--out", "run", "--json",
                             settings=[*TINY, "swarm.peers=2", "train.steps=30", "network.bandwidth=2mbit",
                                       "peer.0.step_time=20ms", "peer.1.step_time=20ms", "sync.interval=10",
                                       "sync.warmup_steps=2"])
        code, out, err = self.finish(process)
        self.assertEqual(code, 0, err)
        summary = json.loads(out.splitlines()[-1])
        self.assertGreater(summary["predicted_step_seconds"], 0)
        self.assertGreater(summary["measured_step_seconds"], 0)
        decided = (self.folder / "run/run.toml").read_text()
        self.assertNotIn('method = "auto"', decided)
        self.assertIn("expected to take", err)
        planned = [event for event in self.events() if event["event"] == "planned"]
        self.assertEqual(len(planned), 1)
        for key in ("method", "schedule"):
            self.assertIn(f'{key} = "{summary[key]}"', decided)
        # Peers and links as they were measured can be planned with while it runs, and afterwards.
        again = self.run_program("plan", "run/run.toml", "--peers", "run/peers.toml", "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        clusters = json.loads(again.stdout)["clusters"]
        self.assertEqual(sorted(stage["peer"] for cluster in clusters for stage in cluster), ["peer-0", "peer-1"])
        # What was measured is kept for the next run.
        self.assertEqual(len(list(self.cache.glob("rookery/profiles/*.json"))), 1)

    def test_settings_of_a_method_are_decided_too(self):
        process = self.start("train", "--out", "run", "--json",
                             settings=[*TINY, "swarm.peers=2", "swarm.clusters=2", "train.steps=300",
                                       "sync.method=local-sgd", "network.bandwidth=2mbit", "sync.warmup_steps=2"])
        code, out, err = self.finish(process)
        self.assertEqual(code, 0, err)
        summary = json.loads(out.splitlines()[-1])
        self.assertIn(summary["interval"], (8, 16, 32))  # at least eight rounds
        self.assertIn(f"interval = {summary['interval']}", (self.folder / "run/run.toml").read_text())
        self.assertIn(f"local-sgd every {summary['interval']} steps", err)

    def test_a_swarm_that_trains_can_be_planned_with(self):
        coordinator, ticket = self.coordinate("train.steps=100000", "train.eval_every=0", "train.checkpoint_every=0",
                                              "dashboard.listen=off")
        early = self.plan("--peers", ticket)
        self.assertEqual(early.returncode, 1, early.stderr)
        self.assertIn("have not been measured yet", early.stderr)
        peers = [self.join(ticket, name) for name in ("attic", "barn", "cellar")]
        self.wait_for_step(3)
        plan = json.loads(self.plan("--peers", ticket, "--json").stdout)
        names = sorted(stage["peer"] for cluster in plan["clusters"] for stage in cluster)
        self.assertEqual(names, ["attic", "barn", "cellar"])
        for option in plan["options"]:
            self.assertEqual(len(option["memory_bytes"]), 3)
        self.assert_wrong_input(self.plan("--peers", ticket[:-4]), "ticket", "damaged")
        self.interrupt(coordinator, peers)


class SimulateTest(SwarmProcessTest):
    """Swarms that are not there."""

    SCENARIO = """
        name = "what-if"
        [model]
        layers = 2
        width = 32
        heads = 2
        context = 32
        [train]
        steps = 12
        batch = 4
        micro_batches = 2
        threads = 1
        [simulate]
        step_time = "1s"
        [[peer]]
        name = "desk"
        count = 2
        network = "home-broadband"
        [[peer]]
        name = "lap"
        count = 2
        speed = 0.5
        jitter = 0.2
        network = "home-broadband"
        """

    def simulate(self, *arguments, scenario=SCENARIO, settings=()):
        (self.folder / "scenario.toml").write_text(scenario)
        return self.run_program("simulate", "scenario.toml", *arguments, settings=settings)

    def test_a_scenario_becomes_a_run(self):
        result = self.simulate("--out", "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("4 peers", "12 steps", "samples/s", "utilisation", "rounds", "predicted"):
            self.assertIn(words, result.stdout)
        self.assertEqual([line["step"] for line in self.metrics()], list(range(1, 13)))
        self.assertEqual(json.loads((self.folder / "run/summary.json").read_text())["steps"], 12)
        self.assertEqual([event["event"] for event in self.events()], ["planned", "began"])
        # What was planned and measured is kept, so it can be repeated, to the byte.
        again = self.run_program("simulate", "run/scenario.toml", "--out", "again", "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertGreater(json.loads(again.stdout.splitlines()[-1])["virtual_seconds"], 5)
        for name in ("metrics.jsonl", "events.jsonl", "summary.json"):
            self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "again" / name).read_bytes())
        other = self.run_program("simulate", "run/scenario.toml", "--out", "other", "--seed", "7")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertNotEqual((self.folder / "run/metrics.jsonl").read_bytes(),
                            (self.folder / "other/metrics.jsonl").read_bytes())

    def test_arithmetic_can_be_done(self):
        result = self.simulate("--json", settings=["simulate.compute=real", "train.eval_batches=2"])
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout.splitlines()[-1])
        self.assertGreater(summary["eval_loss"], 1)
        self.assertLess(summary["eval_loss"], 6)

    def test_scenarios_that_cannot_be_are_refused_in_one_sentence(self):
        for scenario, *said in (
                ("", "no peer"),
                ("[[peer]]\ncount = 0\n", "scenario.toml:2", "count"),
                ("[[peer]]\nspeed = -3\n", "speed"),
                ("[[peer]]\n[simulate]\ntime = 'soon'\n", "simulate.time", "duration"),
                ("[[peer]]\ncount = 2\nmemory = '1kB'\n", "does not fit", "would"),
                ("[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\n[[link]]\nfrom = 'a'\nto = 'b'\nbandwidth = '0bit'\n",
                 "nothing gets from a to b")):
            self.assert_wrong_input(self.simulate(scenario=scenario), *said)
        self.assert_wrong_input(self.run_program("simulate", "nowhere.toml"), "nowhere.toml")
        self.assertFalse((self.folder / "runs").exists())


class BadInputTest(ProcessTest):
    def assert_refused(self, result, *fragments):
        self.assert_wrong_input(result, *fragments)
        self.assertFalse((self.folder / "run").exists(), "something was written")

    def test_unknown_key(self):
        (self.folder / "run.toml").write_text("[model]\nwidht = 5\n")
        self.assert_refused(self.run_program("train", "run.toml", "--out", "run"), "run.toml:2", "model.widht", "'width'")

    def test_wrong_unit(self):
        self.assert_refused(self.train("network.latency=20"), "network.latency")
        self.assert_refused(self.train("network.bandwidth=100parsec"), "network.bandwidth", "parsec")

    def test_unknown_model(self):
        self.assert_refused(self.train("model.kind=gtp"), "model.kind", "did you mean 'gpt'")

    def test_missing_files(self):
        self.assert_refused(self.run_program("train", "nothing.toml", "--out", "run"), "nothing.toml")
        self.assert_refused(self.train("data.source=nothing.txt"), "nothing.txt")

    def test_truncated_idx(self):
        folder = self.folder / "mnist"
        folder.mkdir()
        for split, count in (("train", 60), ("t10k", 20)):
            images = struct.pack(">IIII", 0x803, count, 28, 28) + bytes(count * 784)
            (folder / f"{split}-images-idx3-ubyte").write_bytes(images)
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(count))
        path = folder / "train-images-idx3-ubyte"
        path.write_bytes(path.read_bytes()[:-100])
        result = self.run_program("train", "--out", "run", settings=["model.kind=cnn", "data.source=mnist"])
        self.assert_refused(result, "train-images-idx3-ubyte")

    def test_images_that_are_not_square(self):
        folder = self.folder / "mnist"
        folder.mkdir()
        for split in ("train", "t10k"):
            (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 60, 28, 56) + bytes(60 * 28 * 56))
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 60) + bytes(60))
        result = self.run_program("train", "--out", "run", settings=["model.kind=mlp", "data.source=mnist"])
        self.assert_refused(result, "data.source", "square")

    def test_text_shorter_than_a_context(self):
        (self.folder / "short.txt").write_text("Once.")
        self.assert_refused(self.train("data.source=short.txt"), "short.txt")

    def test_lying_safetensors(self):
        header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
        for name, length, content in (("lying", 1 << 40, header), ("overlap", len(header), header)):
            path = self.folder / f"{name}.safetensors"
            path.write_bytes(struct.pack("<Q", length) + content + bytes(12))
            self.assert_wrong_input(self.run_program("inspect", path), path.name)

    def test_a_prompt_that_the_model_has_no_tokens_for(self):
        for tokens in ((1, 2, 3), (1, 700, 255)):  # fewer than bytes, and more
            (self.folder / "tokens.bin").write_bytes(struct.pack("<3H", *tokens) * 500)
            self.assertEqual(self.train("data.source=tokens.bin", "train.steps=1").returncode, 0)
            self.assert_wrong_input(self.run_program("generate", "run", "--prompt", "Once"), "run", "data.tokenizer")

    def test_corrupt_checkpoint(self):
        self.assertEqual(self.train("train.steps=2").returncode, 0)
        path = self.folder / "run/checkpoints/step-2/optimizer.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        result = self.train("train.steps=4", arguments=["--resume"])
        self.assert_wrong_input(result, "optimizer.safetensors", "damaged")
        self.assertEqual(len(self.metrics()), 2)

    def test_unknown_option_and_command(self):
        for arguments in (["train", "--frobnicate"], ["tarin"], []):
            result = self.run_program(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertTrue(result.stderr)


def children_of(process):
    """In the order in which they were started."""
    return [int(pid) for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


class BenchTest(ProcessTest):
    def test_all_transports_and_codecs(self):
        for arguments in (["--transport", "shm"], ["--transport", "tcp"], ["--tls", "--lanes", 2], ["--codec", "int8"],
                          ["--bandwidth", "1gbit", "--latency", "1ms", "--codec", "bf16"]):
            result = self.run_program("bench", "allreduce", "--peers", 3, "--size", "300KB", "--iterations", 2, "--json",
                                      *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            report = json.loads(result.stdout.splitlines()[-1])
            self.assertEqual((report["operation"], report["peers"], report["bytes"]), ("allreduce", 3, 300000))
            self.assertEqual(set(report["seconds"]), {"median", "p10", "p90"})
            self.assertGreater(report["algorithm_bytes_per_second"], 0)
            self.assertEqual(report["limit_share"] is not None, "--bandwidth" in arguments)

    def test_exchange(self):
        for codec in ("none", "int8"):
            result = self.run_program("bench", "exchange", "--peers", 4, "--size", "1MiB", "--codec", codec)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_link(self):
        report = json.loads(self.run_program("bench", "link", "--size", "1MiB", "--json").stdout.splitlines()[-1])
        self.assertGreater(report["latency_seconds"], 0)

    def test_wrong_options(self):
        for arguments, fragment in ((["--size", "5parsec"], "--size"), (["--codec", "int7"], "int8"),
                                    (["--peers", "1"], "--peers"), (["--transport", "shm", "--tls"], "--tls")):
            self.assert_wrong_input(self.run_program("bench", "allreduce", *arguments), fragment)

    def fail_one(self, send, transport):
        """Does something to the third of four peers, and returns what the others say about it."""
        process = subprocess.Popen([BUILD / "rookery", "bench", "allreduce", "--peers", "4", "--size", "4MiB",
                                    "--iterations", "1000000", "--deadline", "1s", "--transport", transport],
                                   cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + TIMEOUT
        while len(children_of(process)) < 4:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        pids = children_of(process)
        while not all(self.processor_time(pid) > 0.2 for pid in pids):  # they are at it
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        send(pids[2])
        _, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1, errors)
        for pid in pids:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), "a peer is left running")
        return [line for line in errors.splitlines() if "could not go on" in line]

    @staticmethod
    def processor_time(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def test_a_frozen_peer_is_named_by_all_others(self):
        for transport in ("shm", "tcp"):
            said = self.fail_one(lambda pid: os.kill(pid, signal.SIGSTOP), transport)
            for survivor in ("p0", "p1", "p3"):
                lines = [line for line in said if line.startswith(survivor)]
                self.assertEqual(len(lines), 1, said)
                self.assertIn("p2: silent for", lines[0])

    def test_a_killed_peer_is_named_by_all_others(self):
        for transport in ("shm", "tcp"):
            said = self.fail_one(lambda pid: os.kill(pid, signal.SIGKILL), transport)
            for survivor in ("p0", "p1", "p3"):
                lines = [line for line in said if line.startswith(survivor)]
                self.assertEqual(len(lines), 1, said)
                self.assertIn("p2: the connection was", lines[0])


    def test_a_peer_that_is_cut_off_is_named_by_all_others(self):
        said = self.fail_one(cut_off, "tcp")
        for survivor in ("p0", "p1", "p3"):
            lines = [line for line in said if line.startswith(survivor)]
            self.assertEqual(len(lines), 1, said)
            self.assertIn("p2: silent for", lines[0])


class DoctorTest(ProcessTest):
    """A process that listens on a real port, and what can come from there."""

    def setUp(self):
        super().setUp()
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        self.practice = subprocess.Popen([BUILD / "rookery", "doctor", "--listen", "127.0.0.1:0", "--for", "5min", "--json"],
                                         cwd=self.folder, stdout=subprocess.PIPE, stderr=self.log, text=True)
        printed = json.loads(self.practice.stdout.readline())
        self.ticket = printed["ticket"]
        self.address = ("127.0.0.1", int(printed["addresses"][0].rsplit(":", 1)[1]))

    def tearDown(self):
        self.practice.kill()
        self.practice.communicate()
        self.log.close()
        super().tearDown()

    def consult(self, *arguments):
        result = self.run_program("doctor", self.ticket, "--json", *arguments)
        return result.returncode, json.loads(result.stdout.splitlines()[-1])

    def logged(self):
        return (self.folder / "log").read_text()

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.practice.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def assert_service_goes_on(self):
        code, report = self.consult()
        self.assertEqual((code, report["way"]), (0, "direct"), report)

    def test_finds_everything(self):
        code, report = self.consult()
        self.assertEqual(code, 0)
        topics = [finding["topic"] for finding in report["findings"]]
        self.assertEqual(topics, ["ticket", "interface", "port", "trust", "clock", "latency", "bandwidth", "reachable",
                                  "relay"])
        self.assertGreater(report["upload_bits_per_second"], 1e6)
        self.assertEqual(report["way"], "direct")

    def test_without_the_other_end(self):
        self.practice.kill()
        self.practice.wait()
        code, report = self.consult("--patience", "1s")
        self.assertEqual((code, report["verdict"], report["way"]), (1, "BAD", None))
        self.assertIn("nothing listens there", report["findings"][-1]["advice"])

    def test_a_frozen_other_end(self):
        os.kill(self.practice.pid, signal.SIGSTOP)
        code, report = self.consult("--patience", "1s")
        self.assertEqual((code, report["findings"][-1]["topic"]), (1, "trust"))

    def test_wrong_tickets(self):
        middle = len(self.ticket) // 2
        for ticket, fragment in (("hello", "starts with"), (self.ticket[:-5], "damaged"),
                                 (self.ticket[:middle] + "AAAA" + self.ticket[middle + 4:], "damaged")):
            self.assert_wrong_input(self.run_program("doctor", ticket), fragment)
        self.assert_wrong_input(self.run_program("doctor"), "--listen")
        self.assert_wrong_input(self.run_program("doctor", "--listen", "nowhere"), "nowhere")

    # What a stranger says inside TLS is tried in host_test; here it is what arrives on the port.
    def test_hostile_input_is_refused_and_the_service_goes_on(self):
        self.assert_service_goes_on()
        before = self.resident_mib()
        noise = random.Random(1)
        client_hello = bytes([0x16, 3, 1])  # how TLS begins; what follows is a length
        attacks = [b"", noise.randbytes(1), noise.randbytes(500), noise.randbytes(1 << 20), b"GET / HTTP/1.1\r\n\r\n",
                   client_hello + b"\xff\xff" + noise.randbytes(1 << 16), client_hello + b"\x00\x05" + b"\x01",
                   b"ROOK\x00\x00\x01\x00" + b"\xff\xff\xff\xff", b"\0" * (1 << 20)]
        for attack in attacks * 20:
            with socket.create_connection(self.address) as connection:
                try:
                    connection.sendall(attack)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it has had enough
        self.assert_service_goes_on()
        loris = []
        for _ in range(300):  # they say nothing, or begin to and stop
            loris.append(socket.create_connection(self.address))
            if len(loris) % 2 == 0:
                loris[-1].sendall(client_hello)
        self.assert_service_goes_on()
        self.assertLess(self.resident_mib() - before, 64)
        for connection in loris:
            connection.close()
        self.assertIn("was not let in", self.logged())
        self.assertIsNone(self.practice.poll())


class CommandTest(ProcessTest):
    def test_generate_inspect_and_export(self):
        self.assertEqual(self.train("train.steps=3").returncode, 0)
        texts = [self.run_program("generate", "run", "--prompt", "Once", "--tokens", 40, "--seed", seed).stdout
                 for seed in (1, 1, 2)]
        self.assertTrue(texts[0].startswith("Once"))
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        one = json.loads(self.run_program("generate", "run", "--prompt", "Once", "--json").stdout.splitlines()[-1])
        self.assertTrue(one["text"].startswith("Once"))

        inspected = json.loads(self.run_program("inspect", "run", "--json").stdout.splitlines()[-1])
        self.assertEqual(inspected["checkpoint"]["step"], 3)

        exported = self.run_program("export", "run", "model.safetensors")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        content = (self.folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        self.assertEqual(header["embedding.tokens"]["shape"], [256, 32])
        self.assertEqual(json.loads(header["__metadata__"]["rookery.model"])["width"], 32)
        listed = self.run_program("inspect", "model.safetensors")
        self.assertIn("embedding.tokens", listed.stdout)

    def test_config_prints_a_file_that_gives_itself(self):
        first = self.run_program("config", settings=["train.lr=0.5", "network.latency=20ms"])
        self.assertEqual(first.returncode, 0, first.stderr)
        (self.folder / "run.toml").write_text(first.stdout)
        self.assertEqual(self.run_program("config", "run.toml").stdout, first.stdout)
        self.assertEqual(json.loads(self.run_program("config", "run.toml", "--json").stdout)["train"]["lr"], 0.5)

    def test_inspect_model_counts_its_parameters(self):
        result = self.run_program("inspect", "--model", "gpt-neo-8m", "--repetitions", 1, "--json",
                                  settings=["model.context=32"])
        self.assertEqual(result.returncode, 0, result.stderr)
        profile = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(profile["parameters"], sum(layer["parameters"] for layer in profile["layers"]))
        self.assertEqual(len(profile["layers"]), 10)

    def test_a_tokenizer_can_be_learnt_and_used(self):
        words = " ".join(f"word{i % 97} and number {i}" for i in range(4000))
        (self.folder / "text.txt").write_text(words)
        result = self.run_program("data", "tokenizer", "text.txt", "--vocabulary", 400, "--out", "words")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.train("data.source=text.txt", "data.tokenizer=sentencepiece:words.model", "train.steps=2")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_model_of_ones_own_works_like_the_others(self):
        self.write_digits()
        settings = ["model.kind=reader", "data.source=mnist", "train.steps=60", "train.batch=20", "train.lr=0.01",
                    "train.threads=1"]
        result = self.run_program("train", "--out", "run", "--json", program="custom_model", settings=settings)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout.splitlines()[-1])["test_accuracy"], 0.9)
        result = self.run_program("mnist", "swarm", program="custom_swarm")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4 peers", result.stdout)
        self.assertGreater(json.loads((self.folder / "swarm" / "summary.json").read_text())["test_accuracy"], 0.9)


if __name__ == "__main__":
    unittest.main()
