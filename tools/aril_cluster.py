"""A cluster of one's own on this machine, for tests and tools: processes that may be killed, paused
and started again."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import aril_server

READY_SECONDS = 120
# What a runner's log says of itself.
LISTENING = re.compile(r" Runner (\d+) at (\S+)")


class Process:
    """A process that keeps its command line over its lives; its output goes to one file."""

    def __init__(self, name: str, command: list, log: pathlib.Path):
        self.name, self.command, self.log = name, [str(part) for part in command], log
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        self.process = None
        self.start()

    def start(self) -> None:
        with open(self.log, "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self, seconds: float = 60) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise aril_server.Failure(f"{self.name} still runs {seconds} s after SIGTERM") from error

    def read_log(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_for_log(self, text: str, count: int = 1) -> None:
        """Until its log holds `text` so many times, over all its lives."""
        deadline = time.monotonic() + READY_SECONDS
        while self.read_log().count(text) < count:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise aril_server.Failure(f"{self.name} has not said {text!r}: {self.read_log()}")
            time.sleep(0.02)


class Cluster:
    """Usable in a `with` statement, which kills whatever is left.

    With more than one scheduler there is an etcd that elects one: Debian's, as `etcd` on the PATH.
    With `shares_names` there is one in which the gateways keep the names of adapters.
    """

    def __init__(self, aril: pathlib.Path, work: pathlib.Path, schedulers: int = 1, runners: int = 2,
                 gateways: int = 1, flags: tuple = ("--demo",), runner_flags: tuple = (),
                 scheduler_flags: tuple = (), lease_seconds: int = 2, gateway_flags: tuple = (),
                 shares_names: bool = False):
        shutil.rmtree(work, ignore_errors=True)
        self.aril, self.work = aril, work
        self.etcd, self.schedulers, self.runners, self.gateways = None, [], [], []
        self.urls, self.runner_status_urls = [], []
        election, names = [], []
        try:
            if schedulers > 1 or shares_names:
                etcd = ["--etcd", self._start_etcd()]
                election = [*etcd, "--lease-seconds", lease_seconds] if schedulers > 1 else []
                names = etcd if shares_names else []
            addresses = [f"127.0.0.1:{aril_server.free_port()}" for _ in range(schedulers)]
            for i, address in enumerate(addresses):
                self.schedulers.append(self._start(f"scheduler{i}", "scheduler", "--listen", address,
                                                   *election, *scheduler_flags))
            for i in range(runners):
                address, status = (f"127.0.0.1:{aril_server.free_port()}" for _ in range(2))
                self.runner_status_urls.append(f"http://{status}")
                self.runners.append(self._start(
                    f"runner{i}", "runner", "--scheduler", ",".join(addresses), "--listen", address,
                    "--status-listen", status, *flags, *runner_flags))
            for i in range(gateways):
                port = aril_server.free_port()
                self.urls.append(f"http://127.0.0.1:{port}")
                self.gateways.append(self._start(f"gateway{i}", "gateway", "--scheduler",
                                                 ",".join(addresses), "--port", port, *flags,
                                                 *names, *gateway_flags))
            for url in self.urls:
                self.wait_until_served(url)
        except BaseException:
            self.kill_all()
            raise

    def _start(self, name: str, *command) -> Process:
        return Process(name, [self.aril, *command], self.work / f"{name}.log")

    def _start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{aril_server.free_port()}" for _ in range(2))
        self.etcd = Process("etcd", [
            "etcd", "--data-dir", self.work / "etcd", "--listen-client-urls", client,
            "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
            self.work / "etcd.log")
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(client + "/health", timeout=5):
                    return client.removeprefix("http://")
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise aril_server.Failure(f"etcd is not healthy; its log is {self.etcd.log}")

    def wait_until_served(self, url: str) -> None:
        """Until a request is answered: there is a gateway, a scheduler and a runner."""
        body = {"model": "demo", "prompt": "A", "max_tokens": 1}
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                if aril_server.request(url + "/v1/completions", "POST", body,
                                       {"Content-Type": "application/json"})[0] == 200:
                    return
            except (urllib.error.URLError, OSError):
                pass
            for process in self.processes():
                if process.process.poll() is not None:
                    raise aril_server.Failure(f"{process.name} has ended: {process.read_log()}")
            time.sleep(0.1)
        raise aril_server.Failure(f"the cluster does not answer at {url}; its logs are in {self.work}")

    def wait_until_linked(self, gateway: Process) -> None:
        """Until it is connected to every runner, also to one that has just begun a new life."""
        deadline = time.monotonic() + READY_SECONDS
        for runner in self.runners:
            while not _is_linked(gateway, runner):
                if time.monotonic() > deadline:
                    raise aril_server.Failure(f"{gateway.name} is not connected to {runner.name}; "
                                              f"the logs are in {self.work}")
                time.sleep(0.05)

    def processes(self) -> list:
        return [*self.gateways, *self.runners, *self.schedulers, *([self.etcd] if self.etcd else [])]

    def kill_all(self) -> None:
        for process in self.processes():
            if process.process.poll() is None:
                process.resume()
                process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()


def _is_linked(gateway: Process, runner: Process) -> bool:
    """Whether what the gateway said last of the runner's address is that it is connected to it."""
    lives = LISTENING.findall(runner.read_log())
    if not lives:
        return False
    number, address = lives[-1]
    about = [line for line in gateway.read_log().splitlines()
             if line.endswith(f" at {address}") or f" at {address}:" in line]
    return bool(about) and f"connected to runner {number} " in about[-1]


def has_etcd() -> bool:
    return shutil.which("etcd", path=os.environ.get("PATH", "") + ":/usr/sbin") is not None
