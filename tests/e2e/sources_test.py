#!/usr/bin/env python3
"""Adapters from servers that misbehave: over TLS, from an S3-compatible store, from a hub; and uploads.

usage: sources_test.py ARIL_BINARY WORK_DIR
"""

import hashlib
import hmac
import http.server
import json
import logging
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]
import test_venv

test_venv.enter()
try:
    import boto3
    import botocore.exceptions
    import moto.core.authorization
    import moto.server
except ImportError:
    boto3 = None
import aril_server

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ADAPTERS = ROOT / "models/demo/adapters"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
KEY_ID, SECRET, TOKEN = "AKIDEXAMPLE", "sec/ret+key", "session-token"
REGION = "eu-west-1"
MAY_READ_LORAS = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::loras/*"}]})
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
        if kind == "half" or (kind == "short" and path.suffix == ".safetensors"):
            content = content[:len(content) // 2]
        return self.send(request, content, breaks=kind in ("flaky", "stuck"))

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
        if breaks and (request.path not in self.broken or "/stuck/" in request.path):
            self.broken.add(request.path)
            end = len(content) // 2
            request.close_connection = True
        request.wfile.write(content[begin:end])


def is_signed(request) -> bool:
    """AWS Signature Version 4, as Amazon's "Create a signed AWS API request" has it, and with the
    digest of the body in a header, which S3 wants."""
    algorithm, _, fields = request.headers.get("Authorization", "").partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    given = dict(field.strip().split("=", 1) for field in fields.split(","))
    key_id, date, region, service, last = given["Credential"].split("/")
    signed = given["SignedHeaders"].split(";")
    needed = {"host", "x-amz-content-sha256", "x-amz-date"}
    if key_id != KEY_ID or service != "s3" or not needed <= set(signed):
        return False
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in signed)
    payload = request.headers["x-amz-content-sha256"]
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


class Sources(unittest.TestCase):
    """What is asked of `server`, an `aril serve --demo`."""

    server = None

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

    def complete(self, model, max_tokens=1):
        return self.ask("POST", "/v1/completions", {"model": model, "prompt": "a", "temperature": 0,
                                                    "max_tokens": max_tokens})

    def assert_is(self, adapter, demo_name):
        self.assertEqual(adapter["status"], "ready", adapter)
        _, own = self.ask("GET", f"/v1/adapters/{demo_name}")
        self.assertEqual(adapter["generation"], own["generation"])


@unittest.skipUnless(boto3, "there is no moto, an S3 to test with (tools/venv.sh)")
class S3Test(Sources):
    """A store that is not ours, and lets in only who signs right and may read."""

    @classmethod
    def setUpClass(cls):
        shutil.rmtree(WORK / "s3", ignore_errors=True)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request
        store = moto.server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        store.start()
        cls.addClassCleanup(store.stop)
        cls.endpoint = "http://{}:{}".format(*store.get_host_and_port())
        s3 = cls.client("s3")
        for bucket in ("loras", "secrets"):
            s3.create_bucket(Bucket=bucket,
                             CreateBucketConfiguration={"LocationConstraint": REGION})
            for path in (ADAPTERS / "sql").iterdir():
                s3.upload_file(str(path), bucket, f"team-1/sql/{path.name}")
        cls.keys = {"user": cls.user_keys(), "role": cls.role_keys()}
        cls.enterClassContext(moto.core.authorization.enable_iam_authentication())

    @classmethod
    def client(cls, service, key_id="any", secret="any", token=None):
        return boto3.client(service, endpoint_url=cls.endpoint, region_name=REGION,
                            aws_access_key_id=key_id, aws_secret_access_key=secret,
                            aws_session_token=token)

    @classmethod
    def user_keys(cls):
        iam = cls.client("iam")
        iam.create_user(UserName="aril")
        iam.put_user_policy(UserName="aril", PolicyName="read", PolicyDocument=MAY_READ_LORAS)
        key = iam.create_access_key(UserName="aril")["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"], ""

    @classmethod
    def role_keys(cls):
        iam = cls.client("iam")
        role = iam.create_role(RoleName="aril", AssumeRolePolicyDocument="{}")["Role"]
        iam.put_role_policy(RoleName="aril", PolicyName="read", PolicyDocument=MAY_READ_LORAS)
        key = cls.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="test")["Credentials"]
        return key["AccessKeyId"], key["SecretAccessKey"], key["SessionToken"]

    def start(self, key_id, secret, token):
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
        # An empty variable is none.
        with unittest.mock.patch.dict(os.environ, zip(names, (key_id, secret, token, REGION))):
            self.server = aril_server.Server(
                ["--demo", "--state-dir", WORK / "s3/state", "--s3-endpoint", self.endpoint,
                 "--s3-bucket", "loras", "--s3-bucket", "secrets", "--allow-private-sources"],
                WORK / "s3/serve.log", ARIL)
        return self.server

    def assert_fails(self, source, message):
        adapter = self.load("failing", source)
        self.assertEqual(adapter["status"], "failed", adapter)
        self.assertIn(message, adapter["load"]["error"])

    def test_keys_of_users_and_roles_open_it(self):
        for kind, keys in self.keys.items():
            with self.subTest(kind), self.start(*keys):
                self.assert_is(self.load(kind, "s3://loras/team-1/sql"), "sql")
                texts = [self.complete(model, max_tokens=16)[1]["choices"][0]["text"]
                         for model in (kind, "sql", "demo")]
                self.assertEqual(texts[0], texts[1])
                self.assertNotEqual(texts[0], texts[2])
                self.assert_fails("s3://loras/team-2/sql", "has no adapter_config.json")
                self.assert_fails("s3://secrets/team-1/sql", "answers 403")

    def test_other_keys_do_not(self):
        key_id, secret, token = self.keys["role"]
        # The store does look at signatures.
        with self.assertRaisesRegex(botocore.exceptions.ClientError, "SignatureDoesNotMatch"):
            self.client("s3", key_id, secret + "x", token).get_object(
                Bucket="loras", Key="team-1/sql/adapter_config.json")
        for kind, keys, status in (("secret", (key_id, secret + "x", token), 403),
                                   ("token", (key_id, secret, token + "x"), 400),
                                   ("none", ("", "", ""), 403)):
            with self.subTest(kind), self.start(*keys):
                self.assert_fails("s3://loras/team-1/sql", f"the server answers {status}")


class SourcesTest(Sources):
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
                          AWS_REGION=REGION)
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
                ("half", {}, "/half/sql/adapter_config.json: invalid JSON"),
                ("short", {}, "truncated download?"),
                ("stuck", {}, "(5 attempts)"),
                ("redirect", {}, "redirected"),
                ("changed", {"digest": sql["generation"]}, "the files are generation"),
                ("changed", {"sha256": {"adapter_model.safetensors": weights}}, "SHA-256")):
            adapter = self.load("failing", f"{self.files.origin}/{kind}/sql", **fields)
            self.assertEqual(adapter["status"], "failed", (kind, adapter))
            self.assertIn(message, adapter["load"]["error"])
            status, answer = self.complete("failing")
            self.assertEqual(status, 503 if kind in ("down", "stuck") else 404, answer)
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
