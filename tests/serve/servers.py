"""Real servers on free ports: in a thread, where a test can look inside, or as a process, which a test can kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from bethink.aio import AsyncTranslator
from bethink.serve.auth import Access
from bethink.serve.limits import Limits
from bethink.serve.models import Model
from bethink.serve.run import Server, listen, server
from bethink.serve.service import Service
from tests.ports import free_port

CLONE = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds after which what has not happened will not happen, however busy the machine
Result = TypeVar("Result")


class Running:
    """A server in a thread of its own."""

    def __init__(self, model: Model, limits: Limits, access: Access, prefix: str = "") -> None:
        self.listening = listen("127.0.0.1", 0)
        self.port: int = self.listening.getsockname()[1]
        fresh = Model(model.name, model.translator, AsyncTranslator(model.translator))
        self.service = Service([fresh], limits, access)
        self.server: Server = server(self.service, prefix=prefix)
        self.thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    def start(self) -> None:
        self.thread.start()
        until(lambda: self.server.started or not self.thread.is_alive())

    def drain(self) -> None:
        self.server._loop.call_soon_threadsafe(self.server.drain)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the server did not stop"
        assert self.failure is None, self.failure

    def metric(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0

    def _run(self) -> None:
        try:
            self.server.run(sockets=[self.listening])
        except BaseException as error:  # noqa: BLE001 - shown by stop()
            self.failure = error


@contextlib.contextmanager
def running(model: Model, *, access: Access | None = None, prefix: str = "", **limits: Any) -> Iterator[Running]:
    made = Running(
        model,
        Limits(**{"rate": 1e6, "burst": 10**6, "address": 10**6, "lag": 1e6} | limits),
        access or Access("127.0.0.1"),
        prefix,
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Process:
    """`bethink serve` as people start it; on a port that stays the same when it is started again."""

    def __init__(self, *flags: str) -> None:
        self.flags = flags
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> Process:
        command = [
            sys.executable,
            "-m",
            "bethink",
            "serve",
            "--model",
            str(CLONE / "models" / "toy"),
            "--port",
            str(self.port),
        ]
        self.process = subprocess.Popen(
            [*command, *self.flags],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(CLONE / "src")},
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert f"serving toy on http://127.0.0.1:{self.port}" in line, line + self.process.stderr.read()
        until(self._answers)  # a signal that came before would end it in another way
        return self

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=PATIENCE):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """As when the power goes."""
        if self.process is not None:
            self.process.kill()
        self.wait()

    def ask_to_stop(self) -> None:
        """Once: a second signal, when the first has done its work, would end the process in another way."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        _, rest = process.communicate(timeout=PATIENCE)
        self.said.append(rest)
        return process.returncode


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread is about to bring about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def play(scene: Callable[[], Awaitable[Result]], seconds: float = PATIENCE) -> Result:
    """Run a coroutine; whatever hangs is a failure."""

    async def limited() -> Result:
        async with asyncio.timeout(seconds):
            return await scene()

    return asyncio.run(limited())
