#!/usr/bin/env python3
"""What clients have loaded survives kill -9 and a full disk: the names, however many, and what they mean.

usage: registry_test.py ARIL_BINARY WORK_DIR
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server
import client
import evaluate
from aril_server import call, connect

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
SOURCES = ("sql", "routing", "convert")
ROUNDS = 6
SEED = 20261121
NAMES = int(os.environ.get("ARIL_TEST_NAMES", "10000"))
CONNECTIONS = 4
# Less than sql has, and more than the other files of a small state folder. In the shell's blocks.
MOST_BYTES, BLOCK_BYTES = 512 << 10, 512


def multipart(folder: pathlib.Path) -> bytes:
    """An adapter's files as an upload has them, with the boundary `b0`."""
    return b"".join(
        f'--b0\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'.encode() +
        (folder / name).read_bytes() + b"\r\n"
        for name in ("adapter_config.json", "adapter_model.safetensors")) + b"--b0--\r\n"


def series(server: aril_server.Server) -> set:
    """The names of what /metrics shows, with their labels."""
    _, text = aril_server.request(server.url + "/metrics", "GET")
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}


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

    def test_what_a_client_unloads_the_operator_still_has(self):
        question = evaluate.held_out_cases(1)["sql"][0].question
        # Files that no request has are closed: the next one opens them again.
        with self.start("--adapter-root", ADAPTERS, "--adapter-host-cache", "1") as server:
            before = self.answer(server, "sql", question)
            with connect(server) as connection:
                status, mine = call(connection, "PUT", "/v1/adapters/mine", {"source": "sql"})
                self.assertEqual(status, 201, mine)
                self.assertEqual(call(connection, "DELETE", "/v1/adapters/mine")[0], 200)
            self.answer(server, "routing", question)
            self.assertEqual(self.answer(server, "sql", question), before)

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

    def for_each(self, server, names, method, body, expected):
        """The same request for each name, on several connections."""
        def ask(mine):
            with connect(server) as connection:
                for name in mine:
                    status, answer = call(connection, method, f"/v1/adapters/{name}", body)
                    if status != expected:
                        raise aril_server.Failure(f"{method} {name}: {status} {answer}")
        with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(ask, (names[i::CONNECTIONS] for i in range(CONNECTIONS))))

    def assert_has(self, server, names, sample):
        """These names, beside those of the command line; of some of them, what they are."""
        with connect(server) as connection:
            for path in ("/v1/adapters", "/v1/models"):
                listed = [model["id"] for model in call(connection, "GET", path)[1]["data"]]
                self.assertEqual([name for name in listed if name.startswith("name-")], names)
            _, demo = call(connection, "GET", "/v1/adapters/routing")
            for name in sample:
                status, adapter = call(connection, "GET", f"/v1/adapters/{name}")
                self.assertEqual((status, adapter["id"], adapter["generation"]),
                                 (200, name, demo["generation"]))

    def test_thousands_of_names(self):
        names = [f"name-{i:05}" for i in range(NAMES)]
        kept = [name for i, name in enumerate(names) if i % 10 != 0]
        question = evaluate.held_out_cases(1)["routing"][0].question
        with self.start("--adapter-root", ADAPTERS) as server:
            answer = self.answer(server, "routing", question)
            before = series(server)
            self.for_each(server, names, "PUT", {"source": "routing", "expected_generation": ""}, 201)
            self.assert_has(server, names, names[::97])
            # More names than metrics show of any.
            with concurrent.futures.ThreadPoolExecutor(1) as beside:
                asked = beside.submit(evaluate.answers_of, server.url,
                                      [(name, question) for name in names[:300]], CONNECTIONS,
                                      "registry_test")
                seen = series(server)
                while not asked.done():
                    seen |= series(server)
            self.assertEqual(set(asked.result()), {answer})
            shown = {name for text in seen for name in re.findall(r"name-\d+", text)}
            self.assertLessEqual(len(shown), 1)  # one adapter, whatever it is called
            self.assertLess(len(seen), len(before) + 30)
            self.for_each(server, names[::10], "DELETE", None, 200)
            self.assert_has(server, kept, kept[::97])
        self.assertEqual(len(list((WORK / "state/adapters").iterdir())), 1)
        with self.start() as server:
            self.assert_has(server, kept, kept[::97])
            self.for_each(server, names[::100], "GET", None, 404)
            self.assertEqual(self.answer(server, kept[-1], question), answer)

    def start_on_a_full_disk(self):
        """A server that can write no file of more than MOST_BYTES."""
        WORK.mkdir(parents=True, exist_ok=True)
        limited = WORK / "limited"
        limited.write_text(f"#!/bin/sh\ntrap '' XFSZ\nulimit -f {MOST_BYTES // BLOCK_BYTES}\n"
                           f'exec "{ARIL.resolve()}" "$@"\n')
        limited.chmod(0o755)
        return aril_server.Server(["--demo", "--state-dir", WORK / "state", "--adapter-root",
                                   ADAPTERS], WORK / "serve.log", limited)

    def assert_full(self, answer, *messages):
        status, body = answer
        self.assertEqual(status, 503, body)
        for message in messages:
            self.assertIn(message, body["error"]["message"])
        # Where the server keeps things is no business of clients.
        self.assertNotIn(str(WORK), body["error"]["message"])

    def test_an_adapter_for_which_the_disk_has_no_room(self):
        question = evaluate.held_out_cases(1)["sql"][0].question
        form = "multipart/form-data; boundary=b0"
        with self.start_on_a_full_disk() as server, connect(server) as connection:
            for _ in range(2):
                self.assert_full(call(connection, "PUT", "/v1/adapters/big", {"source": "sql"}),
                                 "cannot be stored", "File too large")
                self.assert_full(call(connection, "PUT", "/v1/adapters/big",
                                      multipart(ADAPTERS / "sql"), form),
                                 "cannot be written", "File too large")
            # What an upload has left goes about when its answer does.
            while list((WORK / "state/adapters").iterdir()):
                self.assertEqual(call(connection, "GET", "/v1/adapters/big")[0], 404)
            self.assertEqual(call(connection, "GET", "/v1/adapters/big")[0], 404)
            # Others are not harmed, nor is what fits.
            answer = self.answer(server, "sql", question)
            status, small = call(connection, "PUT", "/v1/adapters/small", {"source": "routing"})
            self.assertEqual(status, 201, small)
            self.assert_full(call(connection, "PUT", "/v1/adapters/small", {"source": "sql"}))
            self.assertEqual(call(connection, "GET", "/v1/adapters/small")[1]["generation"],
                             small["generation"])
        self.assertEqual([path.name for path in (WORK / "state/adapters").iterdir()],
                         [small["generation"]])
        with self.start("--adapter-root", ADAPTERS) as server, connect(server) as connection:
            self.assertEqual(call(connection, "PUT", "/v1/adapters/big", {"source": "sql"})[0], 201)
            self.assertEqual(self.answer(server, "big", question), answer)

    def test_a_name_for_which_the_disk_has_no_room(self):
        shares = ("routing", "sentiment", "convert", "formal")  # each fits
        split = {"split": [{"adapter": f"of-{name}", "weight": 1} for name in shares]}

        def path(number):  # long names fill the registry soon
            return f"/v1/adapters/{number:0128}"
        with self.start_on_a_full_disk() as server, connect(server) as connection:
            for name in shares:
                status, answer = call(connection, "PUT", f"/v1/adapters/of-{name}", {"source": name})
                self.assertEqual(status, 201, answer)
            for count in itertools.count():
                answer = call(connection, "PUT", path(count), split)
                if answer[0] != 201:
                    break
            self.assert_full(answer, "registry")
            self.assertGreater(count, 20)
            self.assertEqual(call(connection, "GET", path(count))[0], 404)
            self.assertEqual(call(connection, "GET", path(count - 1))[0], 200)
            self.answer(server, "of-routing", "x")
            # Room can be made.
            for number in range(20):
                self.assertEqual(call(connection, "DELETE", path(number))[0], 200)
            status, answer = call(connection, "PUT", path(count), split)
            self.assertEqual(status, 201, answer)
        with self.start() as server, connect(server) as connection:
            for number in range(count + 1):
                self.assertEqual(call(connection, "GET", path(number))[0],
                                 200 if number >= 20 else 404)
            self.assertEqual(call(connection, "PUT", path(0), split)[0], 201)

    def test_a_second_server_is_kept_out(self):
        with self.start():
            with self.assertRaisesRegex(aril_server.Failure, "in use by another process"):
                aril_server.Server(["--demo", "--state-dir", WORK / "state"], WORK / "second.log",
                                   ARIL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
