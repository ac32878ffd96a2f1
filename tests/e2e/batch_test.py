#!/usr/bin/env python3
"""A file of requests to many adapters: each is answered as a server answers it, and once, whatever dies meanwhile.

usage: batch_test.py ARIL_BINARY WORK_DIR
"""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
from tasks import TASKS

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
BUSY = 24  # sequences of a step


def line_of(custom_id: str, url: str, body: dict) -> dict:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def requests(count: int) -> list:
    """To all adapters in turn, with what makes their answers differ."""
    lines = []
    for i in range(count):
        body = {"model": [*TASKS, "demo"][i % (len(TASKS) + 1)], "max_tokens": 16, "temperature": 1, "seed": i}
        if i % 3 == 0:
            lines.append(line_of(f"request {i}", "/v1/completions", {**body, "prompt": f"Case {i}:", "logprobs": 1}))
        else:
            lines.append(line_of(f"request {i}", "/v1/chat/completions", {
                **body, "messages": [{"role": "user", "content": f"Where is parcel {i}?"}]}))
    return lines


def answers_of(path: pathlib.Path) -> dict:
    return {line["custom_id"]: line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


class BatchTest(unittest.TestCase):
    def setUp(self):
        self.dir = WORK / self.id().rpartition(".")[2]
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.input, self.output = self.dir / "in.jsonl", self.dir / "out.jsonl"

    def write(self, lines: list):
        self.input.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def start(self, *flags) -> subprocess.Popen:
        return subprocess.Popen([ARIL, "run-batch", "--demo", "--max-num-seqs", str(BUSY), "-i", self.input,
                                 "-o", self.output, *flags], stderr=subprocess.PIPE, text=True)

    def run_to_end(self, *flags) -> str:
        process = self.start(*flags)
        log = process.communicate()[1]
        self.assertEqual(process.returncode, 0, log)
        return log

    def test_is_answered_as_a_server_does(self):
        lines = requests(60)
        wrong = [line_of("no model", "/v1/completions", {"model": "nobody", "prompt": "a"}),
                 line_of("no url", "/v1/files", {}), line_of("request 5", "/v1/completions", {})]
        self.write([*lines, *wrong])
        log = self.run_to_end()
        self.assertIn("60 requests answered, 3 failed", log)
        written = self.output.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(written), 63)
        answers = {line["custom_id"]: line for line in map(json.loads, written) if line["response"]}
        server = aril_server.Server(["--demo"], self.dir / "serve.log", ARIL)
        self.addCleanup(server.stop)
        with client.Connection(server.url) as asking:
            for line in lines:
                response = answers[line["custom_id"]]["response"]
                self.assertEqual(response["status_code"], 200)
                self.assertEqual(response["body"]["choices"], asking.post(line["url"], line["body"])["choices"])
        self.assertEqual(answers["no model"]["response"]["status_code"], 404)
        self.assertIn("nobody", answers["no model"]["response"]["body"]["error"]["message"])
        errors = [line["error"]["message"] for line in map(json.loads, written) if line["error"]]
        self.assertEqual(sorted(error.partition(": ")[0] for error in errors), ["line 62", "line 63"])

    def test_is_of_any_endpoint_and_any_number_of_answers(self):
        asked = [{"role": "user", "content": "Where is my parcel?"}]
        lines = [line_of("embedding", "/v1/embeddings", {"model": "sql", "input": ["a", "b"]}),
                 line_of("response", "/v1/responses", {"model": "sql", "input": "List all users", "max_output_tokens": 9}),
                 line_of("message", "/v1/messages", {"model": "sql", "messages": asked, "max_tokens": 9}),
                 line_of("class", "/v1/classify", {"model": "sql", "input": "a"})]
        # More sequences than a runner takes in at once.
        lines += [line_of(f"many {i}", "/v1/completions", {"model": "demo", "prompt": "a", "n": 128, "max_tokens": 2})
                  for i in range(50)]
        self.write(lines)
        log = self.run_to_end()
        self.assertIn("53 requests answered, 1 failed", log)
        bodies = {name: line["response"]["body"] for name, line in answers_of(self.output).items()}
        self.assertEqual(len(bodies["embedding"]["data"]), 2)
        self.assertEqual(bodies["response"]["status"], "incomplete")
        self.assertEqual(bodies["message"]["role"], "assistant")
        self.assertIn("SEQ_CLS", bodies["class"]["error"]["message"])
        self.assertEqual(len(bodies["many 49"]["choices"]), 128)

    def test_goes_on_where_it_was_killed(self):
        self.write(requests(400))
        process = self.start()
        while not self.output.exists() or self.output.read_bytes().count(b"\n") < 40:
            self.assertIsNone(process.poll())
        process.kill()
        process.communicate()
        first = answers_of(self.dir / "out.jsonl") if self.output.read_bytes().endswith(b"\n") else None
        refused = self.start()
        self.assertIn("is there already: give --resume", refused.communicate()[1])
        self.assertNotEqual(refused.returncode, 0)
        log = self.run_to_end("--resume")
        answers = answers_of(self.output)
        self.assertEqual(set(answers), {f"request {i}" for i in range(400)})
        self.assertEqual(self.output.read_text(encoding="utf-8").count("\n"), 400, "each is answered once")
        if first is not None:
            self.assertIn(f"{len(first)} answered before", log)
        self.assertIn("0 requests answered, 0 failed, 400 answered before", self.run_to_end("--resume"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
