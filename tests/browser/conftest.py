"""A real browser before a real server: Playwright drives the system's Chromium, `bethink serve` runs in a process of its own."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 90  # seconds after which what has not happened will not happen, however busy the machine

# A typeface that comes late moves the words, and another one may then lie under the pointer.
FONTS = "async () => { await Promise.all([...document.fonts].map((face) => face.load())); }"


def chromium() -> str | None:
    """The browser to drive: what $BETHINK_CHROMIUM names, or the system's."""
    return os.environ.get("BETHINK_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Server:
    """`bethink serve` with the bundled model, at a port that stays the same when it is killed and started again."""

    def __init__(self, log: Path, *options: str, models: Sequence[str] = ("toy",), folder: Path = ROOT) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._log = log
        self._options = options
        self._folder = folder
        self.models = models
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "bethink",
            "serve",
            "--port",
            str(self.port),
            *self._options,
            "--model",
            *self.models,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._ready():
                return
            time.sleep(0.1)
        self.kill()
        raise AssertionError(f"the server did not get ready: {self._log.read_text(errors='replace')[-2000:]}")

    def ask_to_stop(self) -> None:
        """As an operator would; it finishes the sentence in flight first."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)
        self._process = None

    def kill(self) -> None:
        """As a power cut would: no goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@dataclass
class Visitor:
    """A page, and everything it said to the console or asked of the network."""

    page: Any
    home: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    forgiven: str = "(?!)"  # what may be complained about: nothing

    def source(self) -> str:
        return " ".join(self.page.locator("#rows .source .word").all_inner_texts())

    def translation(self) -> str:
        """All rows, one sentence per line."""
        rows = self.page.locator("#rows .target").all_inner_texts()  # of one moment
        return "\n".join(re.sub(r"\s+", " ", row).strip() for row in rows)

    def finished(self, sentences: int) -> None:
        """Wait until so many sentences are complete."""
        self.page.wait_for_function(
            "n => document.querySelectorAll('#rows .row[data-key]:not(.live)').length >= n", arg=sentences
        )

    def ready(self) -> None:
        self.page.locator('#status[data-state="ready"]').wait_for()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("fastapi", reason="the live service is not installed: pip install 'bethink[serve]'")
    made = Server(tmp_path_factory.mktemp("server") / "log.txt")
    made.start()
    yield made
    made.kill()


# Playwright leaves an event loop running as long as it is open: the other tests want their own
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'bethink[dev]'")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here (apt-get install chromium, or name one in $BETHINK_CHROMIUM)")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=1000 * PATIENCE
        )
        yield running
        running.close()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of a test's own. It outlives the pages of the test, which would complain that it is gone."""
    with contextlib.ExitStack() as stack:

        def started(*options: str, models: Sequence[str] = ("toy",), folder: Path = ROOT) -> Server:
            made = Server(tmp_path / "log.txt", *options, models=models, folder=folder)
            stack.callback(made.kill)
            made.start()
            return made

        yield started


@pytest.fixture
def visit(browser: Any, server: Server, serving: Callable[..., Server]) -> Iterator[Any]:
    """Opens the page in a fresh context with the given settings; afterwards nothing must have gone wrong in it."""
    visitors: list[Visitor] = []
    contexts = []

    def opened(at: Server = server, script: str = "", **settings: Any) -> Visitor:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | settings))
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        if script:
            context.add_init_script(script)
        visitor = Visitor(context.new_page(), at.url)
        visitor.page.on("console", lambda message: _note(visitor, message))
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        visitor.page.on("request", lambda request: visitor.requests.append(request.url))
        visitor.page.goto(at.url)
        visitors.append(visitor)
        visitor.ready()
        visitor.page.evaluate(FONTS)
        return visitor

    yield opened
    for context in contexts:
        context.close()
    for visitor in visitors:
        assert [text for text in visitor.complaints if not re.match(visitor.forgiven, text)] == []
        assert [url for url in visitor.requests if not url.startswith((visitor.home, "blob:"))] == []


@pytest.fixture
def stranger(browser: Any) -> Iterator[Any]:
    """A page that need not get in at once."""
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    yield page
    page.close()


def _note(visitor: Visitor, message: Any) -> None:
    if message.type in ("error", "warning"):
        visitor.complaints.append(message.text)


def other(folder: Path, name: str) -> Path:
    """The bundled model once more, the same but for its fingerprint: a remark is added to one of its graphs."""
    shutil.copytree(ROOT / "models" / "toy", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    graph = (folder / "encoder.onnx").read_bytes() + b"\x32\x05other"  # a field of the file format: doc_string
    (folder / "encoder.onnx").write_bytes(graph)
    config["files"]["encoder.onnx"] = hashlib.sha256(graph).hexdigest()
    config["name"] = name
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
