"""An `aril serve` of one's own, for tests and tools: on a free port, ready, and ended again."""

import contextlib
import http.client
import json
import pathlib
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
READY_SECONDS = 120
STOP_SECONDS = 60


class Failure(Exception):
    """The server did what it must not do."""


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _own_ports():
    """Free ports without end, in blocks of this process: others that take a block from here, too,
    find the first port of this one bound. Outgoing connections get theirs above all of these."""
    guards = []
    while True:
        guard = socket.socket()
        first = random.SystemRandom().randrange(10_000, 32_736, 32)
        with contextlib.suppress(OSError):
            guard.bind(("127.0.0.1", first))
            guards.append(guard)
            yield from filter(_is_free, range(first + 1, first + 32))


_PORTS = _own_ports()


def free_port() -> int:
    """One that no test beside this one takes, before or after it is used."""
    return next(_PORTS)


def request(url: str, method: str, body=None, headers=None) -> tuple:
    """(status, body) of an answer, whatever the status."""
    asked = urllib.request.Request(url, method=method, headers=headers or {},
                                   data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(asked, timeout=READY_SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def upload_of(folder: pathlib.Path) -> bytes:
    """An adapter's files as an upload has them, with the boundary `b0`."""
    return b"".join(
        f'--b0\r\nContent-Disposition: form-data; name="{path.name}"; filename="{path.name}"\r\n\r\n'.encode() +
        path.read_bytes() + b"\r\n" for path in sorted(folder.iterdir())) + b"--b0--\r\n"


class Server:
    """Usable in a `with` statement, which ends it; its output goes to the file `log`."""

    def __init__(self, flags: list, log: pathlib.Path, aril: pathlib.Path = ROOT / "build/release/aril"):
        self.log = log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                [aril, "serve", *flags, "--port", str(self.port)], stdout=output,
                stderr=subprocess.STDOUT)
        try:
            self._wait_until_ready()
        except BaseException:
            self.process.kill()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"the server ended with {self.process.returncode}: "
                              f"{self.log.read_text(encoding='utf-8')}")
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise Failure(f"the server is not ready after {READY_SECONDS} s; its log is {self.log}")

    def stop(self) -> None:
        """SIGTERM, and nothing but a clean end is good."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise Failure(f"still running {STOP_SECONDS} s after SIGTERM") from error
        if code != 0:
            raise Failure(f"exit code {code} after SIGTERM: {self.log.read_text(encoding='utf-8')}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
            self.process.wait()
        elif self.process.poll() is None:
            self.stop()


def connect(server: Server):
    """A connection that is kept, for a `with` statement and `call`."""
    return contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=READY_SECONDS))


def call(connection, method: str, path: str, body=None, content_type="application/json") -> tuple:
    """(status, body) of an answer in JSON, to what is JSON or bytes."""
    is_raw = body is None or isinstance(body, bytes)
    connection.request(method, path, body if is_raw else json.dumps(body),
                       {"Content-Type": content_type})
    response = connection.getresponse()
    return response.status, json.loads(response.read())
