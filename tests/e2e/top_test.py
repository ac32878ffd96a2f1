#!/usr/bin/env python3
"""`aril top` as its users meet it, in front of `aril serve --demo`.

usage: top_test.py ARIL_BINARY WORK_DIR
"""

import fcntl
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import aril_server

ARIL, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def has_terminals() -> bool:
    try:
        for fd in os.openpty():
            os.close(fd)
    except OSError:
        return False
    return True


needs_terminals = unittest.skipUnless(has_terminals(), "this system gives out no pseudo-terminals")


class Terminal:
    """`aril top` on a terminal of its own."""

    def __init__(self, *arguments: str, rows: int = 24, columns: int = 80):
        self.process_id, self.fd = pty.fork()
        if self.process_id == 0:
            os.execv(ARIL, [str(ARIL), "top", *arguments])
        self.resize(rows, columns)
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text: bytes) -> bytes:
        """What was shown up to `text`, which is waited for."""
        deadline = time.monotonic() + 60
        while text not in self.seen:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not shown: {self.seen!r}")
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def send(self, key: bytes) -> None:
        os.write(self.fd, key)

    def exit_code(self) -> int:
        code = os.waitstatus_to_exitcode(os.waitpid(self.process_id, 0)[1])
        os.close(self.fd)
        return code


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = aril_server.Server(["--demo"], WORK / "serve.log", ARIL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_prints_paragraphs_where_there_is_no_terminal(self):
        done = subprocess.run([ARIL, "top", "--url", self.server.url, "--interval", "10ms",
                               "--iterations", "2"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.count("tokens/s "), 2, done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_says_what_is_wrong(self):
        done = subprocess.run([ARIL, "top", "--url", "http://127.0.0.1:1"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("127.0.0.1:1", done.stderr)
        done = subprocess.run([ARIL, "top", "--url", "nonsense"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--url", done.stderr)

    @needs_terminals
    def test_lives_on_a_terminal_and_leaves_it_as_it_was(self):
        terminal = Terminal("--url", self.server.url, "--interval", "20ms")
        self.assertEqual(terminal.read_until(ENTER), b"")
        terminal.read_until(b"running  waiting  model")
        stop = threading.Event()

        def keep_busy():
            body = b'{"model": "demo", "prompt": "Anna", "max_tokens": 400, "ignore_eos": true}'
            while not stop.is_set():
                urllib.request.urlopen(urllib.request.Request(
                    self.server.url + "/v1/completions", body,
                    {"Content-Type": "application/json"}), timeout=60).close()
        busy = threading.Thread(target=keep_busy)
        busy.start()
        try:
            terminal.read_until(b"  demo")
        finally:
            stop.set()
            busy.join()
        terminal.resize(6, 20)
        terminal.read_until(b"aril top  http://127")
        terminal.send(b"q")
        terminal.read_until(LEAVE)
        self.assertEqual(terminal.exit_code(), 0)

    @needs_terminals
    def test_ends_on_a_signal(self):
        terminal = Terminal("--url", self.server.url)
        terminal.read_until(b"model")
        os.kill(terminal.process_id, signal.SIGTERM)
        terminal.read_until(LEAVE)
        self.assertEqual(terminal.exit_code(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
