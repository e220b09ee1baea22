"""What is published is what was measured: every table is made again from its numbers and compared to the letter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bethink.analysis.catalogue import ENDINGS, load, markdown, section
from bethink.analysis.records import to_json
from bethink.evaluate import Result

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECORDS = sorted((DOCS / "figures" / "analyses").glob("*/*.json"))
SECTION = re.compile(r"<!-- (\S+): begin -->\n(.*?)\n<!-- \1: end -->", re.DOTALL)
CHANCE = re.compile(r"p = \d\.\d{3}")  # of a bootstrap over translations that are not published


def sections(page: Path) -> dict[str, str]:
    found = SECTION.findall(page.read_text("utf-8"))
    assert len(dict(found)) == len(found), f"{page} has two sections of one name"
    return dict(found)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_tables_of_an_analysis_follow_from_its_numbers(path: Path) -> None:
    name, finding = load(path)
    assert path.read_text("utf-8") == to_json(finding)
    assert path.with_suffix(".md").read_text("utf-8") == markdown(name, finding)
    assert all(path.with_suffix(f".{ending}").is_file() for ending in ENDINGS)


def test_the_page_of_analyses_holds_these_tables_and_no_others() -> None:
    expected = {}
    for path in RECORDS:
        model, (name, finding) = path.parent.name, load(path)
        picture = f"figures/analyses/{model}/{name}.svg"
        expected[f"{model}/{name}"] = f"### {name}\n\n{section(name, finding, picture)}"
    page = DOCS / "analyses.md"
    assert sections(page) == expected
    assert "\n|" not in SECTION.sub("", page.read_text("utf-8"))


def test_both_bundled_models_are_analysed() -> None:
    published = {f"{path.parent.name}/{path.stem}" for path in RECORDS}
    names = ("degree", "alignment", "overlap", "ablation", "robustness", "lag", "speed")
    assert published == {f"{model}/{name}" for model in ("de-en", "toy") for name in names}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """runs/de_en.py over the published scores; it writes nothing, and every p is 0."""
    monkeypatch.syspath_prepend(ROOT / "runs")
    import de_en

    def record(folder: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((ROOT / "runs" / "logs" / f"de-en-{folder.name}.json").read_text("utf-8"))
        return found

    def published(folder: Path) -> list[Result]:
        return [Result.from_dict(each) for each in record(folder)["results"]]

    def instead(name: str, answer: Any) -> None:
        monkeypatch.setattr(de_en, name, lambda *_args, **_settings: answer)

    monkeypatch.setattr(de_en, "load_results", published)
    monkeypatch.setattr(de_en, "above_bases", lambda found, *_: record(found[0][0])["heights"])
    instead("read_log", [SimpleNamespace(reference="", prediction="")])
    instead("compare", [None, SimpleNamespace(p_value=0.0)])
    instead("curves", None)
    instead("write_atomically", None)
    return de_en


def sets() -> list[Path]:
    """The test sets with published scores, in the order of the page."""
    names = re.findall(r"^\*\*(\S+)\*\*$", sections(DOCS / "results.md")["de-en"], re.MULTILINE)
    assert names
    return [Path(name) for name in names]


def test_the_german_results_are_those_of_the_logs(script: ModuleType) -> None:
    made = "\n\n".join(map(script.section, sets()))
    assert CHANCE.sub("p", sections(DOCS / "results.md")["de-en"]) == CHANCE.sub("p", made)


def test_the_scores_on_the_card_are_those_of_the_logs(script: ModuleType) -> None:
    made = "\n\n".join(map(script.scores, sets()))
    assert sections(ROOT / "models" / "de-en" / "MODEL_CARD.md")["scores"] == made
