#!/usr/bin/env python3
"""A cluster of real processes, as its clients meet it: `aril scheduler`, `aril runner`, `aril gateway`.

usage: cluster_test.py ARIL_BINARY WORK_DIR

What is killed under load, again and again, is in tools/cluster_chaos.py.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import aril_cluster
import aril_server
import cluster_chaos

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
JSON = {"Content-Type": "application/json"}
LONG = {"model": "demo", "prompt": "Anna has 3 apples", "max_tokens": 400, "ignore_eos": True,
        "temperature": 0}


class Stream(threading.Thread):
    """A stream that is read beside the test."""

    def __init__(self, url: str, body: dict):
        super().__init__()
        self.url, self.body = url, body
        self.text, self.error = None, None
        self.num_tokens, self.has_begun = 0, threading.Event()
        self.start()

    def run(self):
        try:
            self.text = cluster_chaos.stream(self.url, self.body, self._on_token)
        except (cluster_chaos.Broken, aril_server.Failure) as error:
            self.error = error
            self.has_begun.set()

    def _on_token(self):
        self.num_tokens += 1
        if self.num_tokens > 5:
            self.has_begun.set()


def refusal(*command) -> str:
    """What a command that cannot start says."""
    done = subprocess.run([ARIL, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (1, 2), done
    return done.stderr


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with aril_server.Server(["--demo"], WORK / "serve.log", ARIL) as server:
            cls.cases = cluster_chaos.cases_of(server.url, 12, seed=1)
            cls.long = cluster_chaos.stream(server.url, LONG)

    def setUp(self):
        self.cluster = aril_cluster.Cluster(ARIL, WORK / self.id().rsplit(".", 1)[-1], gateways=2)
        self.addCleanup(self.cluster.kill_all)
        self.wait_until_linked()

    def wait_until_linked(self):
        for gateway in self.cluster.gateways:
            self.cluster.wait_until_linked(gateway)

    def test_streams_are_those_of_one_process(self):
        streams = [Stream(self.cluster.urls[i % 2], body) for i, (body, _) in enumerate(self.cases)]
        for (_, expected), stream in zip(self.cases, streams):
            stream.join()
            self.assertEqual(stream.text, expected, stream.error)

    def test_a_killed_runners_streams_go_on(self):
        streams = [Stream(url, LONG) for url in self.cluster.urls * 3]
        for stream in streams:
            stream.has_begun.wait()
        for runner in self.cluster.runners:  # one after the other: all streams lose theirs
            runner.kill()
            runner.start()
            self.wait_until_linked()
        for stream in streams:
            stream.join()
            self.assertEqual(stream.text, self.long, stream.error)

    def test_a_killed_scheduler_is_not_missed_for_long(self):
        running = Stream(self.cluster.urls[0], LONG)
        running.has_begun.wait()
        self.cluster.schedulers[0].kill()
        waiting = Stream(self.cluster.urls[1], LONG)
        num_before = running.num_tokens
        while running.is_alive() and running.num_tokens < num_before + 20:
            time.sleep(0.01)
        self.assertEqual(waiting.num_tokens, 0)
        self.cluster.schedulers[0].start()
        for stream in (running, waiting):
            stream.join()
            self.assertEqual(stream.text, self.long, stream.error)

    def test_a_killed_gateways_streams_break_visibly_and_are_released(self):
        lost, kept = (Stream(url, LONG | {"max_tokens": 450}) for url in self.cluster.urls)
        lost.has_begun.wait()
        kept.has_begun.wait()
        self.cluster.gateways[0].kill()
        for runner in self.cluster.runners:
            runner.wait_for_log("has gone")
        lost.join()
        self.assertIsInstance(lost.error, cluster_chaos.Broken)
        kept.join()
        self.assertIsNotNone(kept.text, kept.error)

    def test_a_runner_that_is_told_to_end_loses_nothing(self):
        streams = [Stream(url, LONG) for url in self.cluster.urls]
        for stream in streams:
            stream.has_begun.wait()
        self.assertEqual(self.cluster.runners[0].terminate(), 0)
        for stream in streams:
            stream.join()
            self.assertEqual(stream.text, self.long, stream.error)
        for process in (*self.cluster.gateways, *self.cluster.runners[1:], *self.cluster.schedulers):
            self.assertEqual(process.terminate(), 0, process.name)

    def test_adapters_cannot_be_changed_and_it_says_so(self):
        url = self.cluster.urls[0]
        for method, path, body in (("PUT", "/v1/adapters/mine", {"source": "x"}),
                                   ("DELETE", "/v1/adapters/mine", None),
                                   ("POST", "/v1/load_lora_adapter",
                                    {"lora_name": "a", "lora_path": "b"})):
            status, text = aril_server.request(url + path, method, body, JSON)
            self.assertEqual(status, 403, text)
            self.assertIn("without --etcd", json.loads(text)["error"]["message"])

    def test_probes_and_prometheus_are_told_how_it_is(self):
        work = self.cluster.work
        scheduler_at, status, runner_status = (f"127.0.0.1:{aril_server.free_port()}"
                                               for _ in range(3))
        runner = aril_cluster.Process("probed", [ARIL, "runner", "--demo", "--scheduler",
                                                 scheduler_at, "--status-listen", runner_status],
                                      work / "probed.log")
        self.addCleanup(runner.kill)
        runner.wait_for_log("no scheduler at")
        self.assertEqual(aril_server.request(f"http://{runner_status}/health", "GET")[0], 200)
        refused, text = aril_server.request(f"http://{runner_status}/ready", "GET")
        self.assertEqual(refused, 503)
        self.assertIn("no scheduler", text)
        scheduler = aril_cluster.Process("probed_scheduler", [
            ARIL, "scheduler", "--listen", scheduler_at, "--status-listen", status],
            work / "probed_scheduler.log")
        self.addCleanup(scheduler.kill)
        runner.wait_for_log("leads, under epoch")
        self.assertEqual(aril_server.request(f"http://{runner_status}/ready", "GET")[0], 200)
        for url, line in ((status, "aril_scheduler_runners 1"), (status, "aril_scheduler_leads 1"),
                          (status, "vllm:num_requests_waiting 0")):
            self.assertIn(line, aril_server.request(f"http://{url}/metrics", "GET")[1])
        self.assertEqual(runner.terminate(), 0)
        self.assertEqual(scheduler.terminate(), 0)

    def test_whoever_serves_something_else_is_refused(self):
        other = WORK / "other-adapters"
        shutil.rmtree(other, ignore_errors=True)
        name = sorted(path.name for path in (ROOT / "models/demo/adapters").iterdir())[0]
        shutil.copytree(ROOT / "models/demo/adapters" / name, other / name)
        command = self.cluster.runners[0].command
        runner = aril_cluster.Process("other", [*command[:4], "--adapters", str(other), "--listen",
                                                f"127.0.0.1:{aril_server.free_port()}", "--demo"],
                                      self.cluster.work / "other.log")
        self.addCleanup(runner.kill)
        runner.wait_for_log("serve different things")
        self.assertIn("adapters here and 1 there", runner.log.read_text(encoding="utf-8"))

    def test_says_what_is_wrong_with_the_command_line(self):
        self.assertIn("--scheduler is required", refusal("runner", "--demo"))
        self.assertIn("expected HOST:PORT", refusal("gateway", "--demo", "--scheduler", "nonsense"))
        self.assertIn("--model is required", refusal("gateway", "--scheduler", "a:1"))
        self.assertIn("without TLS is refused", refusal("scheduler", "--listen", "0.0.0.0:0"))
        taken = self.cluster.schedulers[0].command[3]
        self.assertIn("is the port in use", refusal("scheduler", "--listen", taken))
        self.assertIn("no election can be held", refusal("scheduler", "--listen", "127.0.0.1:0",
                                                         "--etcd", "127.0.0.1:1"))
        self.assertIn("--advertise", refusal("runner", "--demo", "--scheduler", "127.0.0.1:1",
                                             "--listen", "0.0.0.0:0", "--cluster-insecure"))


def openssl(*arguments, cwd: pathlib.Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], cwd=cwd, check=True, capture_output=True)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make certificates with")
class TlsTest(unittest.TestCase):
    """Every link shows a certificate, in both directions."""

    @classmethod
    def setUpClass(cls):
        cls.dir = WORK / "tls"
        shutil.rmtree(cls.dir, ignore_errors=True)
        cls.dir.mkdir(parents=True)
        for ca in ("ca", "other"):
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", f"{ca}.key", "-out", f"{ca}.pem", "-days", "2", "-subj", f"/CN={ca}",
                    cwd=cls.dir)
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", f"{ca}-process.key", "-out", "request.pem", "-subj", "/CN=process",
                    cwd=cls.dir)
            (cls.dir / "names").write_text("subjectAltName=IP:127.0.0.1\n", encoding="utf-8")
            openssl("x509", "-req", "-in", "request.pem", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
                    "-CAcreateserial", "-out", f"{ca}-process.pem", "-days", "2", "-extfile", "names",
                    cwd=cls.dir)

    def flags(self, signer: str) -> tuple:
        return ("--cluster-cert", self.dir / f"{signer}-process.pem", "--cluster-key",
                self.dir / f"{signer}-process.key", "--cluster-ca", self.dir / "ca.pem")

    def test_streams_pass_and_strangers_do_not(self):
        with aril_cluster.Cluster(ARIL, WORK / "tls_cluster", runners=1,
                                  flags=("--demo", *self.flags("ca")),
                                  scheduler_flags=self.flags("ca")) as cluster:
            self.assertTrue(cluster_chaos.stream(cluster.urls[0], LONG | {"max_tokens": 20}))
            scheduler = cluster.schedulers[0].command[3]
            for name, flags in (("stranger", self.flags("other")), ("plain", ())):
                runner = aril_cluster.Process(name, [ARIL, "runner", "--demo", "--scheduler",
                                                     scheduler, *flags],
                                              cluster.work / f"{name}.log")
                self.addCleanup(runner.kill)
                runner.wait_for_log("no scheduler at")
            log = cluster.schedulers[0].log.read_text(encoding="utf-8")
            self.assertEqual(len(re.findall(r"runner \d+ has come", log)), 1, log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
