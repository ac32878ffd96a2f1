#!/usr/bin/env python3
"""What policies do for those who wait: turns of tenants, a bounded queue, an end to waiting too long.

usage: policies_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import json
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]
import aril_server
from aril_server import connect

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
NOISY, QUIET = "key-of-noisy", "key-of-quiet"
# Of a tenant that asks for more than a server of so few seats can serve.
REQUESTS = 24
LONG_PROMPT = "Once upon a time " * 60


class PoliciesTest(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        self.ended = []  # keys, in the order of their answers

    def start(self, *flags, seats=1) -> aril_server.Server:
        (WORK / "keys").write_text(f"{NOISY} noisy\n{QUIET} quiet\n")
        return aril_server.Server(
            ["--demo", "--served-model-name", "base", "--max-num-seqs", str(seats),
             "--api-key-file", WORK / "keys", *flags],
            WORK / "serve.log", ARIL)

    def ask(self, server, key: str, max_tokens: int, stream: bool = False, prompt="Once") -> tuple:
        """(status, headers, body)"""
        body = {"model": "base", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True,
                "stream": stream}
        with connect(server) as connection:
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Authorization": f"Bearer {key}"})
            response = connection.getresponse()
            text = response.read().decode()
        self.ended.append(key)
        return response.status, response.headers, text

    def waiting(self, server) -> int:
        _, text = aril_server.request(server.url + "/metrics", "GET")
        return sum(int(float(line.split()[-1])) for line in text.splitlines()
                   if line.startswith("vllm:num_requests_waiting"))

    def ended_before_quiet(self, *flags, seats=1, prompt="Once", max_tokens=200) -> int:
        """How many of the noisy tenant's requests are answered before the other tenant's second."""
        with self.start(*flags, seats=seats) as server, \
                concurrent.futures.ThreadPoolExecutor(REQUESTS) as threads:
            self.assertEqual(self.ask(server, QUIET, 1)[0], 200)
            self.ended.clear()
            noisy = [threads.submit(self.ask, server, NOISY, max_tokens, prompt=prompt)
                     for _ in range(REQUESTS)]
            while self.waiting(server) < REQUESTS - seats - 3 and not all(n.done() for n in noisy):
                pass
            before = len(self.ended)
            self.assertEqual(self.ask(server, QUIET, 5)[0], 200)
            between = self.ended.index(QUIET) - before
            self.assertEqual({n.result()[0] for n in noisy}, {200})
        self.ended.clear()
        return between

    def test_tenants_take_turns(self):
        in_line = self.ended_before_quiet("--order", "fcfs", "--max-waiting", "1000")
        fair = self.ended_before_quiet("--fair-share")
        # The one that runs, and two whose adapters are loaded ahead.
        self.assertLessEqual(fair, 5)
        self.assertGreater(in_line, fair)

    def test_long_prompts_of_one_tenant_do_not_hold_up_another(self):
        # Cached prompts would not be long. Steps compute twelve tokens of some three hundred.
        long_prompts = {"seats": 8, "prompt": LONG_PROMPT, "max_tokens": 5}
        steps = ("--max-num-batched-tokens", "12", "--no-enable-prefix-caching")
        in_line = self.ended_before_quiet(*steps, **long_prompts)
        fair = self.ended_before_quiet(*steps, "--fair-share", **long_prompts)
        # Its prompt and its tokens take fewer steps than one of the others' prompts.
        self.assertLessEqual(fair, 3)
        self.assertGreater(in_line, fair)

    def outcomes(self, server, max_tokens: int, stream: bool) -> list:
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as threads:
            asked = [threads.submit(self.ask, server, NOISY, max_tokens, stream)
                     for _ in range(REQUESTS)]
            return [future.result() for future in asked]

    def test_more_than_may_wait_are_turned_away_at_once(self):
        with self.start("--max-waiting", "3") as server:
            for stream in (False, True):
                outcomes = self.outcomes(server, 300, stream)
                refused = [outcome for outcome in outcomes if outcome[0] != 200]
                self.assertGreater(len(refused), 0)
                self.assertGreater(len(outcomes) - len(refused), 3)
                for status, headers, text in refused:
                    self.assertEqual(status, 503, text)
                    self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                    self.assertIn("too many requests are waiting (3)", json.loads(text)["error"]["message"])

    def test_who_waits_too_long_is_turned_away(self):
        with self.start("--slo", "200ms", "--early-abort") as server:
            outcomes = self.outcomes(server, 400, False)
            refused = [outcome for outcome in outcomes if outcome[0] != 200]
            self.assertGreater(len(refused), 0)
            for status, headers, text in refused:
                self.assertEqual(status, 503, text)
                self.assertIn("waited too long", json.loads(text)["error"]["message"])
            # Nothing is left of them.
            self.assertEqual(self.ask(server, QUIET, 5)[0], 200)
            self.assertEqual(self.waiting(server), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
