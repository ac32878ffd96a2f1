#!/usr/bin/env python3
"""Adapters that clients give to a cluster at run time: through any gateway, for all of it.

usage: cluster_adapters_test.py ARIL_BINARY WORK_DIR
"""

import json
import pathlib
import shutil
import sys
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import aril_cluster
import aril_server

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
QUESTION = "Show me who lives in Helsinki."
SQL = "SELECT name FROM customers WHERE city = 'Helsinki';"
WAIT_SECONDS = 60


def call(url: str, method: str, path: str, body=None):
    status, text = aril_server.request(url + path, method, body, {"Content-Type": "application/json"})
    return status, json.loads(text)


def ask(url: str, model: str, **more) -> str:
    status, answer = call(url, "POST", "/v1/chat/completions", {
        "model": model, "temperature": 0, "messages": [{"role": "user", "content": QUESTION}], **more})
    assert status == 200, answer
    return answer["choices"][0]["message"]["content"]


def wait_until(is_so, what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise aril_server.Failure(f"not so in {WAIT_SECONDS} s: {what}")
        time.sleep(0.05)


class ClusterAdaptersTest(unittest.TestCase):
    def setUp(self):
        work = WORK / self.id().rsplit(".", 1)[-1]
        shutil.rmtree(work, ignore_errors=True)
        self.root = work / "root"
        for name in ("sql", "formal"):
            shutil.copytree(ADAPTERS / name, self.root / name)
        flags = ("--adapter-root", self.root)
        self.cluster = aril_cluster.Cluster(ARIL, work / "cluster", gateways=2, shares_names=True,
                                            runner_flags=flags, gateway_flags=flags)
        self.addCleanup(self.cluster.kill_all)
        self.first, self.second = self.cluster.urls

    def put(self, url: str, name: str, expected: int, **fields) -> dict:
        status, answer = call(url, "PUT", f"/v1/adapters/{name}", fields)
        self.assertEqual(status, expected, answer)
        return answer

    def generation(self, url: str, name: str):
        """What a name stands for there, or None."""
        status, adapter = call(url, "GET", f"/v1/adapters/{name}")
        return adapter["generation"] if status == 200 else None

    def test_what_one_gateway_is_told_all_know(self):
        sql = self.put(self.first, "mine", 201, source="sql")["generation"]
        self.assertEqual(ask(self.first, "mine"), SQL)
        wait_until(lambda: self.generation(self.second, "mine") == sql, "the other gateway has it")
        self.assertEqual(ask(self.second, "mine"), SQL)
        # It moves, by the other gateway, on the condition that it is what it is.
        formal = self.put(self.second, "mine", 200, source="formal", expected_generation=sql)
        self.put(self.first, "mine", 409, source="sql", expected_generation=sql)
        wait_until(lambda: self.generation(self.first, "mine") == formal["generation"], "it moved")
        self.assertEqual(ask(self.first, "mine"), ask(self.first, "formal"))
        self.put(self.first, "mine", 200, generation=sql)  # and back
        self.assertEqual(ask(self.first, "mine"), SQL)
        # Several of them at once, and a name that divides its requests.
        mixed = ask(self.first, "demo", adapters=[{"name": "mine"}, {"name": "formal", "weight": 0.1}])
        self.assertEqual(mixed, ask(self.first, "demo", adapters=[
            {"name": "sql"}, {"name": "formal", "weight": 0.1}]))
        self.put(self.first, "split", 201, split=[{"adapter": "mine", "weight": 1},
                                                  {"adapter": "formal", "weight": 1}])
        wait_until(lambda: self.generation(self.second, "split") is not None, "the split is there")
        self.assertIn(ask(self.second, "split"), (SQL, ask(self.first, "formal")))
        self.assertEqual(call(self.second, "DELETE", "/v1/adapters/mine")[0], 200)
        wait_until(lambda: self.generation(self.first, "mine") is None, "it is gone")
        self.assertEqual(call(self.first, "POST", "/v1/completions",
                              {"model": "mine", "prompt": "x"})[0], 404)

    def test_names_outlive_every_process(self):
        sql = self.put(self.first, "mine", 201, source="sql")["generation"]
        for process in (*self.cluster.gateways, *self.cluster.runners, *self.cluster.schedulers):
            process.kill()
        for process in (*self.cluster.schedulers, *self.cluster.runners, *self.cluster.gateways):
            process.start()
        for url in self.cluster.urls:
            self.cluster.wait_until_served(url)
            self.assertEqual(self.generation(url, "mine"), sql)
            self.assertEqual(ask(url, "mine"), SQL)

    def test_without_etcd_names_stay_as_they_are(self):
        self.put(self.first, "mine", 201, source="sql")
        wait_until(lambda: self.generation(self.second, "mine") is not None, "both have it")
        self.cluster.etcd.kill()
        self.put(self.first, "mine", 503, source="formal")
        self.assertEqual(call(self.first, "DELETE", "/v1/adapters/mine")[0], 503)
        for url in self.cluster.urls:
            self.assertEqual(ask(url, "mine"), SQL)
        self.cluster.etcd.start()
        wait_until(lambda: call(self.first, "PUT", "/v1/adapters/mine",
                                {"source": "formal"})[0] == 200, "etcd is back")
        wait_until(lambda: ask(self.second, "mine") != SQL, "both have it")

    def test_other_files_than_were_registered_are_not_served(self):
        self.put(self.first, "mine", 201, source="sql")
        shutil.rmtree(self.root / "sql")
        shutil.copytree(ADAPTERS / "formal", self.root / "sql")
        status, answer = call(self.first, "POST", "/v1/completions",
                              {"model": "mine", "prompt": "x", "max_tokens": 1})
        self.assertEqual(status, 503, answer)
        self.assertIn("load the adapter again", answer["error"]["message"])
        shutil.rmtree(self.root / "sql")
        shutil.copytree(ADAPTERS / "sql", self.root / "sql")
        self.assertEqual(ask(self.first, "mine"), SQL)

    def test_files_that_move_are_found_where_their_name_is_moved_to(self):
        sql = self.put(self.first, "mine", 201, source="sql")["generation"]
        for url in self.cluster.urls:
            wait_until(lambda: self.generation(url, "mine") == sql, "both have it")
            self.assertEqual(ask(url, "mine"), SQL)
        (self.root / "sql").rename(self.root / "moved")
        for runner in self.cluster.runners:  # they forget what they have loaded
            runner.kill()
            runner.start()
        for url in self.cluster.urls:
            self.cluster.wait_until_served(url)
        status, answer = call(self.first, "POST", "/v1/completions",
                              {"model": "mine", "prompt": "x", "max_tokens": 1})
        self.assertEqual(status, 503, answer)
        self.assertIn("there is no folder sql", answer["error"]["message"])
        self.assertEqual(self.put(self.first, "mine", 200, source="moved")["generation"], sql)
        self.assertEqual(ask(self.first, "mine"), SQL)
        wait_until(lambda: call(self.second, "GET", "/v1/adapters/mine")[1]["source"] == "moved",
                   "the other gateway knows")
        for runner in self.cluster.runners:
            runner.kill()
            runner.start()
        self.cluster.wait_until_served(self.second)
        self.assertEqual(ask(self.second, "mine"), SQL)

    def test_what_cannot_be_is_said(self):
        def refusal(expected, **fields):
            return self.put(self.first, "mine", expected, **fields)["error"]["message"]

        self.assertIn("--adapter-root", refusal(400, source="../cluster"))
        self.assertIn("there is no folder", refusal(404, source="none"))
        self.assertIn("cannot be pinned", refusal(409, source="sql", pin=True))
        self.assertIn("without --state-dir", refusal(400, source="https://127.0.0.1/x"))
        upload = urllib.request.Request(
            f"{self.first}/v1/adapters/mine", method="PUT",
            headers={"Content-Type": "multipart/form-data; boundary=x"},
            data=b'--x\r\nContent-Disposition: form-data; name="adapter_config.json"\r\n\r\n{}\r\n--x--')
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(upload, timeout=WAIT_SECONDS)
        self.assertEqual(refused.exception.code, 403)
        self.assertIn("give a `source`", refused.exception.read().decode())
        refused.exception.close()


if __name__ == "__main__":
    if not aril_cluster.has_etcd():
        print("cluster_adapters_test.py: SKIPPED: there is no etcd (Debian's etcd-server)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
