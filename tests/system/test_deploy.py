"""The Dockerfile and the systemd unit: what they name exists, and what they start answers."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

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
    assert one("USER") == "bethink"
    assert words.index("USER") > words.index("RUN")
    assert one("EXPOSE") == "8080"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"  # nothing reaches the image that is not named
    assert all((ROOT / name[1:]).exists() for name in ignored if name.startswith("!"))
    assert "constraints.txt" in dict(instructions())["RUN"] or "-c constraints.txt" in str(instructions())


def test_what_the_image_starts_gets_healthy() -> None:
    """Its own command and its own health check, in this environment, on another port."""
    port = free_port()
    command = [*json.loads(one("ENTRYPOINT")), *json.loads(one("CMD")), "--model", "toy", "--port", str(port)]
    check = json.loads(one("HEALTHCHECK").partition("CMD ")[2])
    check = [part.replace(":8080", f":{port}") for part in check]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    serving = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    try:
        deadline = time.monotonic() + 120
        while subprocess.run([sys.executable, *check[1:]], capture_output=True, check=False).returncode:
            assert serving.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "it did not get healthy"
            time.sleep(0.3)
    finally:
        serving.terminate()
        assert serving.wait(60) == 0  # the signal that Docker and systemd send


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
