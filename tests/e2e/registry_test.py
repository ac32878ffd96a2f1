#!/usr/bin/env python3
"""What clients have loaded survives kill -9: the names, and what they mean.

usage: registry_test.py ARIL_BINARY WORK_DIR
"""

import json
import pathlib
import random
import shutil
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
import evaluate

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
SOURCES = ("sql", "routing", "convert")
ROUNDS = 6
SEED = 20261121


class RegistryTest(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(WORK, ignore_errors=True)

    def start(self, *flags):
        return aril_server.Server(["--demo", "--state-dir", WORK / "state", *flags],
                                  WORK / "serve.log", ARIL)

    def answer(self, server, model, question):
        return evaluate.answers_of(server.url, [(model, question)], 1, "registry_test")[0]

    def test_killed_while_names_move_it_serves_the_last_or_the_next(self):
        print(f"seed {SEED}", file=sys.stderr)
        rng = random.Random(SEED)
        question = evaluate.held_out_cases(1)["sql"][0].question
        with self.start() as server:
            meaning = {source: self.answer(server, source, question) for source in SOURCES}
        self.assertEqual(len(set(meaning.values())), len(SOURCES))
        acknowledged = None
        for _ in range(ROUNDS):
            server = self.start("--adapter-root", ADAPTERS)
            asked = [acknowledged]  # in order; the last may not have been answered

            def move(url=server.url):
                with client.Connection(url) as connection:
                    while True:
                        source = rng.choice([s for s in SOURCES if s != asked[-1]])
                        asked.append(source)
                        try:
                            connection.post_for_text(
                                "/v1/load_lora_adapter", {"lora_name": "moving", "lora_path": source,
                                                          "load_inplace": True})
                        except client.Failure:
                            return
                        done.release()
            done = threading.Semaphore(0)
            mover = threading.Thread(target=move)
            mover.start()
            for _ in range(rng.randint(1, 8)):
                done.acquire()
            server.process.kill()
            server.process.wait()
            mover.join()
            with self.start() as server:
                with client.Connection(server.url) as connection:
                    source = json.loads(connection.get("/v1/adapters/moving"))["source"]
                self.assertIn(source, asked[-2:])
                self.assertEqual(self.answer(server, "moving", question), meaning[source])
            acknowledged = source
        # Each generation once, and nothing that an import left.
        self.assertLessEqual(len(list((WORK / "state/adapters").iterdir())), len(SOURCES))

    def test_names_that_clients_loaded_are_theirs_after_a_restart(self):
        keys = WORK / "keys"
        WORK.mkdir(parents=True)
        keys.write_text("a acme\nz zeta\n")
        flags = ["--adapter-root", ADAPTERS, "--api-key-file", keys]

        def ask(server, method, path, key, body=None):
            return aril_server.request(server.url + path, method, body,
                                       {"Authorization": f"Bearer {key}"})
        with self.start(*flags) as server:
            status, _ = ask(server, "PUT", "/v1/adapters/mine", "a", {"source": "sql"})
            self.assertEqual(status, 201)
        with self.start(*flags) as server:
            self.assertEqual(ask(server, "GET", "/v1/adapters/mine", "a")[0], 200)
            self.assertEqual(ask(server, "GET", "/v1/adapters/mine", "z")[0], 404)
            self.assertEqual(ask(server, "DELETE", "/v1/adapters/mine", "a")[0], 200)
        with self.start(*flags) as server:
            self.assertEqual(ask(server, "GET", "/v1/adapters/mine", "a")[0], 404)
        self.assertEqual(list((WORK / "state/adapters").iterdir()), [])

    def test_splits_and_pins_are_there_after_a_restart(self):
        def put(server, name, body):
            status, text = aril_server.request(f"{server.url}/v1/adapters/{name}", "PUT", body)
            self.assertIn(status, (200, 201), text)
            return json.loads(text)

        def get(server):
            return json.loads(aril_server.request(f"{server.url}/v1/adapters/prod", "GET")[1])
        with self.start("--adapter-root", ADAPTERS) as server:
            put(server, "old", {"source": "sql"})
            put(server, "new", {"source": "routing"})
            before = put(server, "prod", {"pin": True, "split": [
                {"adapter": "old", "weight": 2}, {"adapter": "new", "weight": 1}]})
            # The shares stay, whatever becomes of the names.
            self.assertEqual(
                aril_server.request(f"{server.url}/v1/adapters/new", "DELETE")[0], 200)
        with self.start("--adapter-root", ADAPTERS) as server:
            after = get(server)
            for field in ("generation", "pin", "pin_error", "history", "rank", "bytes"):
                self.assertEqual(after[field], before[field], field)
            # Asked for only now, and loaded ahead.
            with client.Connection(server.url) as connection:
                for user in range(12):
                    connection.post("/v1/completions", {"model": "prod", "prompt": "x",
                                                        "max_tokens": 1, "user": f"user {user}"})
            after = get(server)
            self.assertEqual(after["residence"], "pool")
            self.assertEqual(sum(share["requests"] for share in after["split"]), 12)
            self.assertGreater(min(share["requests"] for share in after["split"]), 0)

    def test_a_template_that_cannot_be_read_takes_its_adapter_only(self):
        adapters = WORK / "adapters"
        for name in ("sql", "routing"):
            shutil.copytree(ADAPTERS / name, adapters / name)
        (adapters / "sql/chat_template.jinja").unlink(missing_ok=True)
        (adapters / "sql/chat_template.jinja").mkdir()  # root reads whatever is a file
        with self.assertRaisesRegex(aril_server.Failure, "(?s)sql: .*--skip-bad-adapters"):
            self.start("--adapters", adapters)
        with self.start("--adapters", adapters, "--skip-bad-adapters") as server:
            self.assertEqual(aril_server.request(f"{server.url}/v1/models/sql", "GET")[0], 404)
            self.assertEqual(aril_server.request(f"{server.url}/v1/models/routing", "GET")[0], 200)

    def test_a_second_server_is_kept_out(self):
        with self.start():
            with self.assertRaisesRegex(aril_server.Failure, "in use by another process"):
                aril_server.Server(["--demo", "--state-dir", WORK / "state"], WORK / "second.log",
                                   ARIL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
