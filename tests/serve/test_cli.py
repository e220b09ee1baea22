"""`bethink serve` starts, or says in one sentence why not."""

from __future__ import annotations

import builtins
import socket
from pathlib import Path
from typing import Any

import pytest

from bethink.cli import main
from bethink.cli.serve import FLAGS
from bethink.serve.auth import read_token
from bethink.serve.limits import Limits
from tests.serve.servers import CLONE

TOY = str(CLONE / "models" / "toy")


def complaint(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    code = main(["serve", "--model", TOY, "--port", "0", *flags])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--origin", "live.example.org"], "is not an origin"),
        (["--port", "70000"], "from 0 to 65535"),
        (["--max-streams", "0"], "at least 1"),
        (["--max-lag", "-1"], "above 0"),
        (["--model", TOY, TOY], "a name of its own"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    code, text = complaint(capsys, *flags)
    assert code == 2
    assert said in text
    assert text.count("\n") == 1


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, text = complaint(capsys, "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "address already in use; choose another with --port" in text


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])  # both are reserved: nobody has them
def test_a_host_that_is_not_this_machine(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = complaint(capsys, "--host", host, "--port", "0")
    assert code == 2
    assert "choose another with --host" in text
    assert "unknown error" not in text


def test_models_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "klingon", "--port", "0"]) == 1
    assert "no model 'klingon'" in capsys.readouterr().err


def test_without_the_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("bethink.serve.run"):
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    code, text = complaint(capsys)
    assert code == 1
    assert "serving needs the 'serve' extra; install it with: " in text


def test_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BETHINK_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("BETHINK_TOKEN", "from-the-environment")
    assert read_token(None) == "from-the-environment"
    file = tmp_path / "token"
    file.write_text("correct-horse\n", encoding="utf-8")
    assert read_token(str(file)) == "correct-horse"
    for bad in ("", "short", "two words here", "schlüssel-wort"):
        file.write_text(bad, encoding="utf-8")
        code, text = complaint(capsys, "--token-file", str(file))
        assert code == 2
        assert "at least 8 plain characters" in text
        assert not bad or bad not in text.replace(str(file), "")
    assert complaint(capsys, "--token-file", str(tmp_path / "none"))[0] == 1


def test_every_limit_is_a_flag() -> None:
    assert {limit.name for limit in FLAGS} | {"start"} == set(Limits.__dataclass_fields__)
