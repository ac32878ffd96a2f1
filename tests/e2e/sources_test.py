#!/usr/bin/env python3
"""Adapters from servers that misbehave: over TLS, from an S3-compatible store, from a hub; and uploads.

usage: sources_test.py ARIL_BINARY WORK_DIR
"""

import hashlib
import hmac
import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import aril_server

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
KEY_ID, SECRET, TOKEN = "AKIDEXAMPLE", "sec/ret+key", "session-token"
READY_SECONDS = 120


class FileServer:
    """Serves ADAPTERS below /KIND/, each kind in its own way, and remembers what it was asked."""

    def __init__(self, certificate=None):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with outer.lock:
                    outer.asked.append((self.path, dict(self.headers)))
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.lock = threading.Lock()
        self.asked = []
        self.broken = set()
        self.go_on = threading.Event()
        self.elsewhere = ""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.origin = f"{scheme}://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()

    def paths(self):
        with self.lock:
            return [path for path, _ in self.asked]

    def answer(self, request):
        parts = request.path.strip("/").split("/")
        if parts[0] == "api":
            files = [path.name for path in (ADAPTERS / parts[3]).iterdir()]
            body = {"sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            return self.send(request, json.dumps(body).encode())
        if "resolve" in parts:
            return self.redirect(request, f"{self.elsewhere}/good/{parts[1]}/{parts[4]}?signature=1")
        kind, rest = parts[0], urllib.parse.urlsplit("/".join(parts[1:])).path
        if kind == "loras" and not is_signed(request):
            return self.send(request, b"<Code>SignatureDoesNotMatch</Code>", status=403)
        if kind == "redirect":
            return self.redirect(request, f"{self.elsewhere}/good/{rest}")
        if kind == "down":
            return self.send(request, b"", status=503)
        path = ADAPTERS / rest
        if kind == "nothing" or not path.is_file():
            return self.send(request, b"no such file", status=404)
        content = path.read_bytes()
        if kind == "slow" and path.suffix == ".safetensors":
            self.go_on.wait(READY_SECONDS)
        if kind == "changed" and path.suffix == ".safetensors":
            content = content[:-1] + bytes([content[-1] ^ 1])
        if kind == "half":
            content = content[:len(content) // 2]
        return self.send(request, content, breaks=kind == "flaky")

    @staticmethod
    def redirect(request, location):
        request.send_response(302)
        request.send_header("Location", location)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def send(self, request, content, status=200, breaks=False):
        etag = '"' + hashlib.sha256(content).hexdigest() + '"'
        begin, wanted = 0, request.headers.get("Range", "")
        if wanted.startswith("bytes=") and request.headers.get("If-Range") == etag:
            begin, status = int(wanted[6:].rstrip("-")), 206
        request.send_response(status)
        request.send_header("Content-Length", str(len(content) - begin))
        if status == 206:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        request.send_header("ETag", etag)
        request.end_headers()
        end = len(content)
        if breaks and request.path not in self.broken:
            self.broken.add(request.path)
            end = len(content) // 2
            request.close_connection = True
        request.wfile.write(content[begin:end])


def is_signed(request) -> bool:
    """AWS Signature Version 4, as Amazon's "Create a signed AWS API request" has it."""
    algorithm, _, fields = request.headers.get("Authorization", "").partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    given = dict(field.strip().split("=", 1) for field in fields.split(","))
    key_id, date, region, service, last = given["Credential"].split("/")
    signed = given["SignedHeaders"].split(";")
    if key_id != KEY_ID or service != "s3" or not {"host", "x-amz-date"} <= set(signed):
        return False
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in signed)
    payload = request.headers.get("x-amz-content-sha256", hashlib.sha256(b"").hexdigest())
    canonical = "\n".join(["GET", request.path, "", headers, ";".join(signed), payload])
    scope = f"{date}/{region}/{service}/{last}"
    text = "\n".join([algorithm, request.headers["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (date, region, service, last):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return (hmac.compare_digest(expected, given["Signature"]) and
            request.headers.get("x-amz-security-token") == TOKEN)


class SourcesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        certificate = WORK / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", WORK / "key.pem", "-out", certificate],
                       check=True, capture_output=True)
        both = WORK / "both.pem"
        both.write_text(certificate.read_text() + (WORK / "key.pem").read_text())
        cls.files, cls.cdn, cls.s3 = FileServer(both), FileServer(both), FileServer()
        cls.stranger = FileServer(both)
        cls.files.elsewhere = cls.cdn.origin
        os.environ.update(SSL_CERT_FILE=str(certificate), AWS_ACCESS_KEY_ID=KEY_ID,
                          AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN=TOKEN,
                          AWS_REGION="eu-west-1")
        cls.server = aril_server.Server(
            ["--demo", "--state-dir", WORK / "state", "--adapter-origin", cls.files.origin,
             "--s3-endpoint", cls.s3.origin, "--s3-bucket", "loras",
             "--hub-endpoint", cls.files.origin, "--hub-redirect-origin", cls.cdn.origin,
             "--source-timeout", "20s", "--adapter-load-wait", "60s", "--allow-private-sources"],
            WORK / "serve.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        for server in (cls.files, cls.cdn, cls.s3, cls.stranger):
            server.close()

    def ask(self, method, path, body=None):
        status, text = aril_server.request(self.server.url + path, method, body)
        return status, json.loads(text)

    def load(self, name, source, **fields):
        """PUT, and what there is when the load is over."""
        status, answer = self.ask("PUT", f"/v1/adapters/{name}", {"source": source, **fields})
        self.assertEqual(status, 202, answer)
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            _, adapter = self.ask("GET", f"/v1/adapters/{name}")
            if not adapter["load"] or adapter["load"]["status"] == "failed":
                return adapter
            time.sleep(0.02)
        raise AssertionError(f"{name} is still being loaded: {adapter}")

    def complete(self, model):
        return self.ask("POST", "/v1/completions", {"model": model, "prompt": "a", "max_tokens": 1})

    def assert_is(self, adapter, demo_name):
        self.assertEqual(adapter["status"], "ready", adapter)
        _, own = self.ask("GET", f"/v1/adapters/{demo_name}")
        self.assertEqual(adapter["generation"], own["generation"])

    def test_over_tls(self):
        self.assert_is(self.load("tls", f"{self.files.origin}/good/sql"), "sql")
        self.assertEqual(self.complete("tls")[0], 200)

    def test_what_breaks_off_goes_on_where_it_broke(self):
        self.assert_is(self.load("flaky", f"{self.files.origin}/flaky/sql"), "sql")
        with self.files.lock:
            ranges = [headers for path, headers in self.files.asked
                      if path.startswith("/flaky/") and "Range" in headers]
        self.assertTrue(ranges)

    def test_requests_wait_for_a_slow_one_and_others_do_not(self):
        status, _ = self.ask("PUT", "/v1/adapters/slow", {"source": f"{self.files.origin}/slow/sql"})
        self.assertEqual(status, 202)
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(self.complete("slow")))
        waiting.start()
        self.assertEqual(self.complete("routing")[0], 200)
        self.assert_is(self.load("beside", f"{self.files.origin}/good/routing"), "routing")
        self.assertEqual(answers, [])
        self.files.go_on.set()
        waiting.join()
        self.assertEqual(answers[0][0], 200, answers)

    def test_from_s3(self):
        self.assert_is(self.load("s3", "s3://loras/convert"), "convert")
        refused = self.ask("PUT", "/v1/adapters/s3x", {"source": "s3://other/convert"})
        self.assertEqual(refused[0], 400, refused)
        self.assertIn("--s3-bucket", refused[1]["error"]["message"])

    def test_from_a_hub(self):
        self.assert_is(self.load("hub", "hf://org/sql"), "sql")
        self.assertTrue(any("signature=1" in path for path in self.cdn.paths()))
        with self.cdn.lock:
            self.assertFalse(any("Authorization" in headers for _, headers in self.cdn.asked))

    def test_failures_say_why_and_harm_nobody_else(self):
        _, sql = self.ask("GET", "/v1/adapters/sql")
        weights = hashlib.sha256((ADAPTERS / "sql/adapter_model.safetensors").read_bytes()).hexdigest()
        for kind, fields, message in (
                ("nothing", {}, "has no adapter_config.json"),
                ("down", {}, "answers 503"),
                ("half", {}, ""),
                ("redirect", {}, "redirected"),
                ("changed", {"digest": sql["generation"]}, "the files are generation"),
                ("changed", {"sha256": {"adapter_model.safetensors": weights}}, "SHA-256")):
            adapter = self.load("failing", f"{self.files.origin}/{kind}/sql", **fields)
            self.assertEqual(adapter["status"], "failed", (kind, adapter))
            self.assertIn(message, adapter["load"]["error"])
            status, answer = self.complete("failing")
            self.assertEqual(status, 503 if kind == "down" else 404, answer)
            self.assertIn(message, answer["error"]["message"])
            self.assertEqual(self.complete("sql")[0], 200)
        self.assertEqual(self.ask("DELETE", "/v1/adapters/failing")[0], 200)
        self.assertEqual(self.ask("GET", "/v1/adapters/failing")[0], 404)

    def test_nobody_off_the_list_is_contacted(self):
        port = self.stranger.origin.rsplit(":", 1)[1]
        for source in (f"{self.stranger.origin}/good/sql", f"https://127.0.0.1:{port}/good/sql",
                       f"https://localhost@127.0.0.1:{port}/good/sql", "http://localhost/x",
                       "https://169.254.169.254/latest", "file:///etc/passwd", "ftp://localhost/x",
                       f"{self.files.origin}/../../etc", f"{self.files.origin}/a%2f..%2fb",
                       "hf://org/sql@../../x", "s3://loras/../x"):
            status, answer = self.ask("PUT", "/v1/adapters/evil", {"source": source})
            self.assertEqual(status, 400, (source, answer))
        self.assertEqual(self.stranger.paths(), [])

    def upload(self, path, parts):
        body = b"".join(
            f'--b0\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'.encode() +
            content + b"\r\n" for name, file, content in parts) + b"--b0--\r\n"
        request = aril_server.urllib.request.Request(
            self.server.url + path, method="PUT", data=body,
            headers={"Content-Type": "multipart/form-data; boundary=b0"})
        try:
            with aril_server.urllib.request.urlopen(request, timeout=READY_SECONDS) as response:
                return response.status, json.load(response)
        except aril_server.urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def test_uploads(self):
        parts = [(path.name, path.name, path.read_bytes()) for path in (ADAPTERS / "sql").iterdir()
                 if path.name in ("adapter_config.json", "adapter_model.safetensors")]
        status, adapter = self.upload("/v1/adapters/sent", parts)
        self.assertEqual(status, 201, adapter)
        self.assertEqual(self.complete("sent")[0], 200)
        for bad in ([("README.md", "README.md", b"x")] + parts, parts + parts[:1], parts[:1],
                    [(name, "../" + file, content) for name, file, content in parts],
                    [(name, file, b"{}") for name, file, _ in parts]):
            self.assertEqual(self.upload("/v1/adapters/bad", bad)[0], 400)
        self.assertEqual(self.ask("GET", "/v1/adapters/bad")[0], 404)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
