"""`bethink analyze` from end to end, on a small model and on the toy language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bethink import toy
from bethink.cli import main


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = main(["analyze", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def links(tmp_path: Path) -> Path:
    path = tmp_path / "links.talp"
    lines = [" ".join(f"{i + 1}-{j + 1}" for i, j in pair.alignment) for pair in toy.sentences(3, seed=1)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("name", ["degree", "alignment"])
def test_analyses_of_aligned_pairs(
    name: str,
    model: Path,
    text: Path,
    references: Path,
    links: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    files = ("--source", text, "--target", references, "--alignment", links)
    code, printed, error = run(capsys, name, "--model", model, *files, "--policy", "wait-k:k=2", "pe:k=1", "--out", out)
    assert (code, error) == (0, "")
    assert {path.name for path in out.iterdir()} == {f"{name}.{ending}" for ending in ("json", "md", "svg")}
    record = json.loads((out / f"{name}.json").read_text("utf-8"))
    assert (record["model"], record["pairs"]) == ("random", 3)
    assert "wait-k:k=2" in printed
    assert "pe:k=1" in (out / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["degree", "alignment", "robustness"])
def test_a_model_of_the_toy_language_needs_no_files(name: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, error = run(capsys, name, "--model", model, "--policy", "wait-k:k=2", "--limit", 3)
    assert (code, error) == (0, "")
    assert "wait-k:k=2" in printed


def test_the_markdown_holds_the_numbers_of_the_record(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "alignment", "--model", model, "--limit", 3, "--out", tmp_path)
    points = json.loads((tmp_path / "alignment.json").read_text("utf-8"))["points"]
    rows = [line.split(" | ") for line in (tmp_path / "alignment.md").read_text("utf-8").splitlines() if ":k" in line]
    assert [row[0] for row in rows][:1] == [f"| {points[0]['policy']}"]
    for row, point in zip(rows, points, strict=False):
        assert row[1:3] == [f"{point['AL']:.2f}", f"{point['DAL']:.2f}"]


def test_tables_and_pictures_are_made_again_from_the_numbers_alone(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    _, printed, _ = run(capsys, "alignment", "--model", model, "--limit", 3, "--out", first)
    code, again, error = run(capsys, "redraw", first / "alignment.json", "--out", second)
    assert (code, error) == (0, "")
    assert again == printed.replace(str(first), str(second))
    assert {file.name: file.read_bytes() for file in first.iterdir()} == {
        file.name: file.read_bytes() for file in second.iterdir()
    }


def test_ablation_reads_results(
    model: Path, text: Path, references: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        flags = ["--model", str(model), "--source", str(text), "--reference", str(references)]
        main(["evaluate", *flags, "--policy", "wait-k:k=2", "--out", str(tmp_path / name)])
    capsys.readouterr()
    code, printed, _ = run(capsys, "ablation", f"first={tmp_path / 'a'}", tmp_path / "b", "--samples", 20)
    assert code == 0
    assert "first" in printed
    assert "+0.00" in printed
    code, _, error = run(capsys, "ablation", f"b={tmp_path / 'a'}", tmp_path / "b")
    assert code == 2
    assert "two systems have the same name" in error


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "ANALYSIS"),
        (["degre"], 2, "invalid choice: 'degre'"),
        (["overlap", "--model", "MODEL"], 1, "no constraint heads"),
        (["degree", "--model", "MODEL", "--source", "nowhere", "--target", "nowhere"], 1, "cannot read nowhere"),
        (["degree", "--model", "MODEL", "--source", "nowhere"], 2, "--target is missing"),
        (["redraw", "nowhere/degree.json"], 1, "cannot read nowhere"),
        (["redraw", "nowhere/degre.json"], 2, "no analysis named 'degre'"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    args: list[str], code: int, message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, error = run(capsys, *(str(model) if arg == "MODEL" else arg for arg in args))
    assert found == code
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("what", [("degree", "--model", "toy"), ("redraw", "docs/figures/analyses/toy/degree.json")])
def test_a_light_installation_is_told_what_to_install(
    what: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    code, _, error = run(capsys, *what)
    assert code == 1
    assert "bethink analyze needs the 'train' extra" in error
    assert error.count("\n") == 1
