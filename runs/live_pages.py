"""The pages on live use, from records of `bethink evaluate`: haste, an hour of talk, policies that count words, a converted model.

python runs/live_pages.py haste RESULTS            keep what runs/haste.sh measured as runs/logs/haste.json
python runs/live_pages.py longform FOLDER          keep what runs/longform.sh measured as runs/logs/longform.json
python runs/live_pages.py words FOLDER             keep what runs/words.sh measured as runs/logs/words.json
python runs/live_pages.py converted FOLDER         keep what runs/converted.sh measured as runs/logs/converted.json
python runs/report.py                        then makes the pages
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bethink.analysis.sheet import Sheet, number
from bethink.evaluate import Result, load_results
from bethink.files import write

LOGS = Path(__file__).parent / "logs"
VIEWS = {  # folder of a talk: how its source was written
    "written": "as written",
    "written--lower": "lower case",
    "written--unpunctuated": "without punctuation",
    "written--lower--unpunctuated": "without both",
}
MODELS = {
    "judged": "converted",
    "float32": "converted, float32",
    "de-en": "bundled, causal",
}  # folder of its results: name
SETS = {"europarl.dev": "Europarl dev", "newstest2013": "newstest2013"}
Record = dict[str, Any]


def haste(record: Record) -> str:
    results = [Result.from_dict(each) for each in record["results"]]
    floor = next(result.scores.haste["hallucination"] for result in results if result.policy == "offline")
    ordered = sorted(results, key=lambda result: result.scores.latency["simuleval"]["LAAL"])
    rows = [
        [
            f"`{result.policy}`",
            number(result.scores.latency["simuleval"]["LAAL"]),
            number(result.scores.quality["standard"]["BLEU"].score, 1),
            number(result.scores.haste["hallucination"], 1),
            number(result.scores.haste["hallucination"] - floor, 1, sign=True),
            number(result.scores.haste["anticipated"], 1),
            number(result.scores.haste["anticipation"], 2),
            number(result.scores.haste["invented"], 1),
            number(result.scores.haste["content_lost"], 1),
        ]
        for result in ordered
    ]
    columns = ["policy", "LAAL", "BLEU", "hallucination %", "over offline", "anticipated %", "anticipation, words"]
    columns += ["content words invented %", "content words lost %"]
    rates = {name.removeprefix("reference, "): rate for name, rate in results[0].scores.haste.items() if "k=" in name}
    asked = ", ".join(f"{rate:.1f} % ({k})" for k, rate in rates.items())
    note = f"k-anticipation of the reference: {asked}."
    return f"# Haste\n\n{record['about']}\n\n{Sheet(record['title'], columns, rows, note).markdown()}"


def longform(record: Record) -> str:
    columns = ["text", "source", "BLEU", "LongYAAL", "with computing", "first tenth", "last tenth"]
    columns += ["longest stall, words", "loops %", "loops % of reference"]
    rows = []
    for each in record["talks"]:
        scores = Result.from_dict(each["result"]).scores
        lags = [scores.latency["longform"][name] for name in ("LongYAAL", "LongYAAL-CA")]
        lags += [scores.longform[f"lag, {part} tenth"] for part in ("first", "last")]
        row = [SETS[each["set"]], VIEWS[each["view"]], number(scores.quality["standard"]["BLEU"].score, 1)]
        row += [number(lag / 1000) for lag in lags] + [number(scores.longform["stall"], 0)]
        rows.append(row + [number(scores.longform[name]) for name in ("loops", "reference loops")])
    given = ", ".join(
        f"{each['BLEU']:.1f} at LAAL {each['LAAL']:.1f} words ({SETS[each['set']]})" for each in record["sentences"]
    )
    note = f"With sentence boundaries given, text as written: BLEU {given}."
    return f"# An hour of talk\n\n{record['about']}\n\n{Sheet(record['title'], columns, rows, note).markdown()}"


def words(record: Record) -> str:
    return f"# Counting words\n\n{record['about']}\n\n{word_table(record)}"


def converted(record: Record) -> str:
    return f"# A converted offline model\n\n{record['about']}\n\n{word_table(record)}"


def word_table(record: Record) -> str:
    """What the model's card has, too; with a column for the model where there are several."""
    columns = ["set", "policy", "AL", "LAAL", "DAL", "YAAL", "BLEU", "negation lost %", "invented %", "numbers lost %"]
    several = any("model" in each for each in record["sets"])
    rows = []
    for each in record["sets"]:
        results = [Result.from_dict(result) for result in each["results"]]
        for result in sorted(results, key=lambda result: result.scores.latency["simuleval"]["LAAL"]):
            measured = result.scores.latency["simuleval"]  # YAAL is not defined for whole sentences
            lags = [number(measured[name]) if name in measured else "–" for name in ("AL", "LAAL", "DAL", "YAAL")]
            bleu = number(result.scores.quality["standard"]["BLEU"].score)
            of = [each["set"], each["model"]] if several else [each["set"]]
            rows.append([*of, f"`{result.policy}`", *lags, bleu, *_losses(result)])
    return Sheet(record["title"], ["set", "model", *columns[1:]] if several else columns, rows, "").markdown()


def _losses(result: Result) -> list[str]:
    """What the policy loses or invents beyond the whole-sentence translation; nothing for that translation itself."""
    asked = (("negation", "lost"), ("negation", "invented"), ("numbers", "lost"))
    return [
        number(value) if (value := result.scores.meaning.get(kind, {}).get(name)) is not None else "–"
        for kind, name in asked
    ]


def talks(folder: Path) -> Iterator[Record]:
    for name in SETS:
        for view in VIEWS:
            [result] = load_results(folder / f"{name}-{view}")
            yield {"set": name, "view": view, "result": result.to_dict()}


def sentences(folder: Path) -> Iterator[Record]:
    for name in SETS:
        [scores] = [result.scores for result in load_results(folder / f"{name}-sentences")]
        laal, bleu = scores.latency["simuleval"]["LAAL"], scores.quality["standard"]["BLEU"].score
        yield {"set": name, "BLEU": bleu, "LAAL": laal}


def main(kind: str, folder: Path) -> None:
    path = LOGS / f"{kind}.json"
    old = json.loads(path.read_text("utf-8")) if path.is_file() else {"title": "", "about": ""}
    said = {key: old[key] for key in ("title", "about")}  # what is said about it stays
    if kind == "haste":
        made: Record = {"results": [result.to_dict() for result in load_results(folder)]}
    elif kind == "words":
        found = sorted(path.parent for path in folder.glob("*/results.json"))
        made = {
            "sets": [{"set": path.name, "results": [each.to_dict() for each in load_results(path)]} for path in found]
        }
    elif kind == "converted":
        found = sorted(path.parent for path in folder.glob("*/*/results.json") if path.parent.name in MODELS)
        made = {
            "sets": [
                {
                    "set": path.parent.name,
                    "model": MODELS[path.name],
                    "results": [each.to_dict() for each in load_results(path)],
                }
                for path in found
            ]
        }
    else:
        made = {"talks": list(talks(folder)), "sentences": list(sentences(folder))}
    write(path, json.dumps(said | made, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
