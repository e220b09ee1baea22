from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest

from bethink.train.log import FILE, Log, read


def test_resuming_takes_back_what_came_after(tmp_path: Path) -> None:
    with Log(tmp_path, 0, 10) as log:
        for update in (2, 4, 6):
            log.record("train", update, {"loss": 1 / update})
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind": "train", "upd')  # cut off by a crash
    with Log(tmp_path, 4, 10) as log:
        log.record("train", 6, {"loss": 0.5})
    assert [(record["update"], record["loss"]) for record in read(tmp_path)] == [(2, 0.5), (4, 0.25), (6, 0.5)]


def test_a_line_tells_where_training_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Log(tmp_path, 0, 10) as log:
        log.record("dev", 5, {"wait-1": 2.5, "tokens/s": 12345.6, "rate": 0.0001})
    assert capsys.readouterr().err == "5/10 dev  wait-1 2.500  tokens/s 12,346  rate 0.0001\n"


@pytest.mark.parametrize(
    ("seconds", "left"), [(300, r"  5 min left"), (-5, r"  0 min left"), (math.inf, r" \d\d\d+ min left")]
)
def test_the_time_left_ends_with_the_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, left: str
) -> None:
    with Log(tmp_path, 0, 10**8, until=time.perf_counter() + seconds) as log:
        for update in (1, 2, 3):
            time.sleep(0.01)
            log.advance(update)
        log.record("train", 3, {"loss": 2.5})
    assert re.search(left, capsys.readouterr().err)


def test_no_log_yet(tmp_path: Path) -> None:
    assert read(tmp_path) == []


@pytest.mark.parametrize(
    "line", [b"[1]", b"3", b"null", b'{"kind": "train"}', b'{"update": "x"}', b"\xff", b"[" * 100_000]
)
def test_a_line_that_is_no_record_is_left_out(tmp_path: Path, line: bytes) -> None:
    (tmp_path / FILE).write_bytes(line + b'\n{"kind": "train", "update": 2, "loss": 1.0}\n')
    with Log(tmp_path, 2, 10):
        pass
    assert [record["update"] for record in read(tmp_path)] == [2]
