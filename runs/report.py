"""The pages of docs/results, made from the records in runs/logs and docs/figures/analyses alone: python runs/report.py

A comparison's record holds, for each set, every result, how much each curve gains over others, and paired tests. Other records are those of
single experiments, of the toy language, of training speed and of `bethink analyze`. No model and no log is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from curve_gain import MEASURES, gains, point, samples
from live_pages import converted, haste, longform, word_table, words
from systems import PICTURES, PUBLISHED, each

from bethink.analysis import ablation, catalogue
from bethink.analysis.sheet import number
from bethink.evaluate import Result, plots, quality
from bethink.evaluate.instances import read_log
from bethink.files import write

ROOT = Path(__file__).parent.parent
AXES = {"standard": ("LAAL", "simuleval"), "paper": ("AL", "paper")}  # the latency beside each kind of BLEU
SAMPLES, NEAR = 1000, 1.0  # of the bootstrap; how far apart in latency points may be that it compares
AS_PUBLISHED = {policy for pattern in PUBLISHED for policy in each(pattern)}
HOW = (
    "BLEU gained over other curves, on average over the latencies that both reach, by AL, LAAL and DAL in words; bold where 95 % of "
    "the bootstrap samples over sentences have the same sign. Curves are straight between points, so one of few points looks a little "
    "lower than it is."
)
# headings that name their measure
GAINED = {"BLEU": "BLEU gained"} | {f"{m} saved": f"{m} saved at equal BLEU" for m in MEASURES}
# curves of the same model that others are compared with
OWN = {
    "wait-k": "its own wait-k",
    "random": "its own random verdicts",
    "random-weigh": "its own random verdicts",
    "weigh-by-probability": "its own probability",
}
OVERVIEW = {  # row: the curve it tells of
    "a wait-k model for each k": ("wait-k", "wait-k"),
    "adaptive-wait-k over multi-path": ("multi-path", "adaptive"),
    "adaptive-wait-k over five wait-k models": ("adaptive-wait-k", "adaptive"),
    "fixed schedules, `rate=1.2`": ("multi-path", "wait-k, rate=1.2"),
    "PED, post-evaluation (`pe`)": ("ped", "pe"),
    "multi-path with a judge (`weigh`)": ("judged-multi-path", "weigh"),
}
TESTED = ("de-en-final", "en-de-comparison", "en-vi-comparison")  # comparisons on test sets
Record = dict[str, Any]
Curve = tuple[str, str]  # a system and a kind of policy


def lag(result: Result, measure: str, profile: str = "simuleval") -> float:
    return result.scores.latency[profile][measure]


def bleu(result: Result, profile: str = "standard") -> float:
    return result.scores.quality[profile]["BLEU"].score


def above(
    result: Result, curve: Sequence[Result], measure: str, profile: str = "simuleval", kind: str = "standard"
) -> float | None:
    """BLEU over a curve at equal lag, between its points; none beyond its ends."""
    points = [(lag(one, measure, profile), bleu(one, kind)) for one in curve]
    return ablation.above((lag(result, measure, profile), bleu(result, kind)), points)


def fixed(results: Sequence[Result]) -> list[Result]:
    """The wait-k curve among results."""
    return [result for result in results if ablation.is_wait_k(result.policy)]


def kind_of(policy: str) -> str:
    """Of a policy, whatever it counts; fixed schedules that read faster than they write are of another kind for each rate."""
    name, _, rate = policy.replace(",unit=word", "").partition(",rate=")
    return f"wait-k, rate={rate}" if name.startswith("wait-k") and rate not in ("", "1.0") else name.partition(":")[0]


def curve_of(results: Sequence[Result], labels: dict[str, str], curve: Curve) -> list[Result]:
    """The points of one system with one kind of policy, slowest last; beside chosen settings the published ones are left out."""
    points = [one for one in results if (labels[one.model], kind_of(one.policy)) == curve]
    return sorted([one for one in points if one.policy not in AS_PUBLISHED] or points, key=lambda one: lag(one, "LAAL"))


# what a comparison's record holds


def analysed(found: Sequence[tuple[Path, Result]], labels: dict[str, str], base: str, profile: str) -> Record:
    """Results, each with the folder of its log; how much every curve gains over some others; and paired tests."""
    results = [result for _, result in found]
    logs = {id(result): folder / result.log for folder, result in found}
    curves: dict[Curve, list[Result]] = {}
    for result in results:
        if result.policy != "offline" and result.policy not in AS_PUBLISHED:
            curves.setdefault((labels[result.model], kind_of(result.policy)), []).append(result)
    weights = samples(results[0].scores.sentences, SAMPLES)
    points = {curve: [point(logs[id(one)], weights, profile) for one in curves[curve]] for curve in curves}
    bases = [(base, "wait-k"), (base, "wait-k, rate=1.2"), (base, "adaptive"), ("adaptive-wait-k", "adaptive")]
    gained = []
    for curve, members in points.items():
        over = {" ".join(other): gains(members, points[other]) for other in bases if other in points and other != curve}
        for kind, about in OWN.items():
            own = curve[0], kind
            if own in points and own not in (curve, (base, "wait-k")):
                over[about] = gains(members, points[own])
        gained.append({"system": curve[0], "policy": curve[1], "points": len(members), "over": over})
    tests = list(paired(curves, logs, (base, "wait-k"), profile))
    return {"results": [result.to_dict() for result in results], "gains": gained, "bootstrap": tests}


def paired(curves: dict[Curve, list[Result]], logs: dict[int, Path], base: Curve, profile: str) -> Iterator[Record]:
    """At each point of the base the point of every other curve that is nearest in latency, and whether chance explains the difference."""
    axis = AXES[profile]
    for one in curves.get(base, []):
        for curve, members in curves.items():
            rival = min(members, key=lambda r: abs(lag(r, *axis) - lag(one, *axis)))
            if curve == base or abs(lag(rival, *axis) - lag(one, *axis)) > NEAR:
                continue
            read = {f"{r.model} {r.policy}": read_log(logs[id(r)]) for r in (one, rival)}
            said = {name: [instance.prediction for instance in log] for name, log in read.items()}
            references = [instance.reference for instance in next(iter(read.values()))]
            first, second = quality.compare(said, references, profile=profile, samples=SAMPLES)
            yield {"base": [one.model, one.policy], "rival": [rival.model, rival.policy], "p": second.p_value} | {
                "lags": [lag(one, *axis), lag(rival, *axis)],
                "difference": second.score - first.score,
            }


def summary(result: Result) -> Record:
    lags = {name: round(lag(result, name), 2) for name in MEASURES}
    return {"model": result.model, "policy": result.policy, **lags, "BLEU": round(bleu(result), 2)}


# pages


def publish(record: Record, name: str, root: Path = ROOT) -> None:
    """The record, the pictures and the page of a comparison; its title and what is said about it stay if it was there before."""
    path = root / "runs" / "logs" / f"{name}.json"
    if path.is_file():
        old = json.loads(path.read_text("utf-8"))
        record = {key: old[key] for key in ("title", "about") if key in old} | record
    write(path, json.dumps(record, indent=1) + "\n")
    write(root / "docs" / "results" / f"{name}.md", comparison(record, name))
    for one in record["sets"]:
        for picture, results in pictures(record, one):
            labels, out = record["labels"], root / "docs" / "figures" / f"{name}-{one['name']}{picture}.svg"
            drawn = [replace(r, model=labels[r.model], policy=short(r.policy)) for r in results]
            plots.curves(drawn, out, *AXES[record["profile"]], quality_profile=record["profile"])


def short(policy: str) -> str:
    """A policy named by its kind and k, so that a picture puts all its points on one curve, whatever its other settings."""
    kind, _, settings = policy.partition(":")
    first = settings.partition(",")[0]
    return f"{kind}:{first}" if first.startswith("k=") and "rate" not in kind_of(policy) else policy


def pictures(record: Record, one: Record) -> Iterator[tuple[str, list[Result]]]:
    """The end of each picture's name, and the results in it; a comparison of policies of one system has one picture of all."""
    results, labels = [Result.from_dict(result) for result in one["results"]], record["labels"]
    if len(set(labels.values())) == 1:
        yield "", results
        return
    for picture, wanted in PICTURES.items():
        found = [points for curve in wanted if (points := curve_of(results, labels, curve))]
        if len(found) > 1:  # a picture compares
            yield f"-{picture}", [result for points in found for result in points]


def comparison(record: Record, name: str) -> str:
    page = [f"# {record.get('title', name)}", "", *([record["about"], ""] if "about" in record else [])]
    for one in record["sets"]:
        results = [Result.from_dict(result) for result in one["results"]]
        role = "development set: settings were chosen on it" if one["role"] == "dev" else "test set"
        page += [
            f"## {one['name']}",
            "",
            f"{role[0].upper()}{role[1:]}; {results[0].scores.sentences:,} sentences.",
            "",
        ]
        for picture, _ in pictures(record, one):
            what = picture.removeprefix("-") or "policies"
            page += [
                f"![Quality against latency on {one['name']}: {what}](../figures/{name}-{one['name']}{picture}.svg)",
                "",
            ]
        page += [
            *gain_table(one["gains"]),
            *point_table(record, results),
            *test_table(one["bootstrap"], record["profile"]),
        ]
    return "\n".join(page).rstrip() + "\n"


def table(*rows: Sequence[str]) -> list[str]:
    """A table in Markdown; the first row is its heading."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *body, ""]


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """What most readers need not see, behind a sentence that says what it is."""
    return [f"<details><summary>{summary}</summary>", "", *lines, "</details>", ""]


def gain_table(curves: Sequence[Record]) -> list[str]:
    """One row for each curve."""
    bases = sorted({base for one in curves for base in one["over"]}, key=len)  # wait-k first
    if not bases:
        return []
    heading = ["system", "policy", "points", *(f"over {base}, by {measure}" for base in bases for measure in MEASURES)]
    rows = []
    for one in curves:
        cells = [cell(one["over"].get(base, {}).get(measure)) for base in bases for measure in MEASURES]
        if any(cells):
            rows.append([one["system"], one["policy"], str(one["points"]), *cells])
    return [HOW, "", *table(heading, *rows)]


def cell(gain: Sequence[float] | None) -> str:
    """A gain, bold if both its bounds lie on one side of nothing."""
    if gain is None:
        return ""
    mean, *bounds = gain  # none where no bootstrap was made
    sure = bounds and (bounds[0] > 0 or bounds[1] < 0)
    return f"**{mean:+.1f}**" if sure else f"{mean:+.1f}"


def point_table(record: Record, results: Sequence[Result]) -> list[str]:
    base = curve_of(results, record["labels"], (record.get("base", "multi-path"), "wait-k"))
    heading = ["system", "policy", *MEASURES, "AL (paper)", "BLEU", "BLEU (paper)"]
    rows = []
    for one in results:
        lags = [f"{lag(one, measure):.2f}" for measure in MEASURES]
        scores = [f"{lag(one, 'AL', 'paper'):.2f}", f"{bleu(one):.2f}", f"{bleu(one, 'paper'):.2f}"]
        alike = not base or one in base or one.policy == "offline"
        gained = ["" if alike else number(above(one, base, measure), 1, sign=True) for measure in MEASURES]
        rows.append([one.model, f"`{one.policy}`", *lags, *scores, *gained])
    kinds = sorted({(profile, one.scores.quality[profile]["BLEU"].signature) for one in results for profile in AXES})
    signed = [f"{profile} BLEU: `{signature}`  " for profile, signature in kinds]
    over = [f"over the first wait-k curve at equal {measure}" for measure in MEASURES]
    return folded(f"Every point: {len(results)} rows", [*table([*heading, *over], *rows), *signed, ""])


def test_table(tests: Sequence[Record], profile: str) -> list[str]:
    if not tests:
        return []
    measure = AXES[profile][0]
    rows = [[measure, "system", "policy", measure, "BLEU difference", "p"]]
    for test in tests:
        (base, policy), (rival, other), lags = test["base"], test["rival"], test["lags"]
        numbers = [f"{lags[1]:.2f}", f"{test['difference']:+.2f}", f"{test['p']:.3f}"]
        rows.append([f"{lags[0]:.2f} ({base} `{policy}`)", rival, f"`{other}`", *numbers])
    about = f"Each row compares a point with the wait-k point named first; {SAMPLES:,} samples."
    return folded(f"Paired bootstrap: {len(tests)} tests", [about, "", *table(*rows)])


def overview(records: dict[str, Record]) -> str:
    sets = [(name, one) for name in TESTED for one in records[name]["sets"] if one["role"] == "test"]
    rows = [["", *(f"[{name}]({name}.md), {one['name']}" for name, one in sets)]]
    for title, curve in OVERVIEW.items():
        cells = []
        for _, one in sets:
            found = [
                c["over"].get("multi-path wait-k", {}) for c in one["gains"] if (c["system"], c["policy"]) == curve
            ]
            cells.append(" / ".join(cell(found[0].get(measure)) for measure in MEASURES) if found else "")
        rows.append([title, *cells])
    about = (
        "BLEU gained over wait-k of multi-path on test sets, by AL / LAAL / DAL in words, on average over the latencies that both curves "
        "reach; bold where 95 % of the bootstrap samples over sentences have the same sign. BLEU is standard for de-en, the paper's for "
        "the others. The systems of a column are fine-tuned from one base model for as many updates; each row covers latencies of its own."
    )
    return "\n".join(["# Systems on the test sets", "", about, "", *table(*rows)]).rstrip() + "\n"


def beside_paper(records: dict[str, Record], paper: Record) -> str:
    page = ["# The paper's numbers beside ours", "", paper["about"], ""]
    for name, one in paper["comparisons"].items():
        record = records[name]
        [results] = [s["results"] for s in record["sets"] if s["name"] == one["set"]]
        ours = [Result.from_dict(result) for result in results]
        rows = [
            ["k", *(f"paper: {c}" for c in one["paper"]), *(f"ours: {system} `{kind}`" for system, kind in one["ours"])]
        ]
        for k in ("1", "3", "5", "7", "9", "whole sentence"):
            cells = [column.get(k, "") for column in one["paper"].values()]
            for system, kind in one["ours"]:
                wanted = "offline" if k == "whole sentence" else f"k={k}"
                points = curve_of(ours, record["labels"], (system, "offline" if wanted == "offline" else kind))
                found = [p for p in points if wanted in p.policy.partition(":")[2].split(",") or p.policy == wanted]
                cells.append(f"{lag(found[0], 'AL', 'paper'):.2f} / {bleu(found[0], 'paper'):.2f}" if found else "")
            rows.append([k, *cells])
        page += [f"## {one['title']}", "", one["about"], "", *table(*rows)]
    return "\n".join(page).rstrip() + "\n"


def experiments(found: dict[str, Record]) -> str:
    """Single experiments: every point, and what curves gain over each other."""
    page = [
        "# Single experiments",
        "",
        "Each was made once, for one question; [results.md](../results.md) says what was learned.",
        "",
    ]
    for one in found.values():
        page += [f"## {one['title']}", "", one["about"], ""]
        if one.get("table"):
            page += table(*one["table"])
        if one.get("gains"):
            measures = list(one["gains"][0]["by"])
            rows = [[g["set"], g["curve"], g["over"], *(cell(g["by"].get(m)) for m in measures)] for g in one["gains"]]
            page += table(["set", "curve", "over", *(GAINED.get(m, f"BLEU gained, by {m}") for m in measures)], *rows)
        keys = [key for key in ("AL", "LAAL", "DAL", "BLEU", "accepted") if any(key in p for p in one["points"])]
        rows = [
            [p["set"], p["system"], f"`{p['policy']}`", *(number(p.get(key)) for key in keys)] for p in one["points"]
        ]
        page += folded(f"Every point: {len(rows)} rows", table(["set", "system", "policy", *keys], *rows))
    return "\n".join(page).rstrip() + "\n"


def toy(record: Record) -> str:
    results, seeds = [Result.from_dict(result) for result in record["mean"]], record["seeds"]
    curve, paths = fixed([r for r in results if r.model == "ped"]), ("full source", "wait-5", "wait-3", "wait-1")
    rows = [["model", "policy", "AL", "LAAL (words)", "DAL (words)", "BLEU", "over wait-k at equal AL", "at equal DAL"]]
    for r in results:
        lags = [f"{lag(r, *of):.2f}" for of in (("AL", "paper"), ("LAAL",), ("DAL",))]
        gained = [
            number(above(r, curve, *of, kind="paper"), 1, sign=True) for of in (("AL", "paper"), ("DAL", "simuleval"))
        ]
        rows.append([r.model, f"`{r.policy}`", *lags, f"{bleu(r, 'paper'):.1f}", *gained])
    known = [["seed", "offline token accuracy", *(f"AUC of d, {path}" for path in paths), "rho (dev)"]]
    for seed, facts in seeds.items():
        aucs = [f"{facts[f'auc {path}']:.3f}" for path in paths]
        known.append([seed, f"{facts['accuracy']:.4f}", *aucs, str(facts["rho"])])
    picture = "![Quality against latency on the toy language](../figures/toy.svg)"
    about = (
        "Made by `python runs/toy.py`: 20,000 training sentences, seeds averaged, 500 test sentences; AL and BLEU in the paper's profile. "
        "Every baseline has as many updates (1,050) as the PED model. The gain is over the wait-k curve of the same PED model, between "
        "its points. `rho` was chosen on 200 other sentences for each seed; the rows show the mean of the choices."
    )
    return "\n".join(["# The toy language", "", about, "", picture, "", *table(*rows), *table(*known)]).rstrip() + "\n"


def throughput(runs: Sequence[Record]) -> str:
    rows = [
        ["system", "kernels", "positions in an update", "target tokens/s", "ms per update", "utilisation", "padding"]
    ]
    for run in runs:
        speed = [f"{run['positions']:,}", f"{run['tokens_per_second']:,.0f}", f"{run['milliseconds']:.1f}"]
        rows.append([run["system"], run["kernels"], *speed, f"{run['utilisation']:.1%}", f"{run['padding']:.1%}"])
    about = (
        "One H200, Transformer-Base (6 + 6 layers, width 512), joint vocabulary of 32,000, bfloat16, compiled, synthetic sentences with "
        "lengths like Europarl's, 40 updates after each shape was recorded, nothing else on the GPU: `python benchmarks/training.py "
        "--systems multi-path ped --compiled yes --tokens 65536`. Utilisation is the model's FLOP/s over the GPU's own bfloat16 matrix "
        "rate. Later rows have later kernels."
    )
    return "\n".join(["# Training throughput", "", about, "", *table(*rows)]).rstrip() + "\n"


def analyses(folder: Path) -> str:
    page = ["# Analyses", "", "Made by `runs/analyses.sh`; [method.md](../method.md) says what each measures.", ""]
    for model in sorted(path.name for path in folder.iterdir()):
        page += [f"## Model `{model}`", ""]
        for name, analysis in catalogue.CATALOGUE.items():
            if (path := folder / model / f"{name}.json").is_file():
                picture = f"![{analysis.caption}](../figures/analyses/{model}/{name}.svg)"
                page += [f"### {name}", "", picture, "", catalogue.markdown(*catalogue.load(path))]
    return "\n".join(page).rstrip() + "\n"


def pages(root: Path = ROOT) -> dict[str, str]:
    """Every generated page under docs/results, by its name."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((root / "runs" / "logs").glob("*.json"))}
    made = {name: comparison(record, name) for name, record in found.items() if "labels" in record}
    made |= {"overview": overview(found), "paper": beside_paper(found, found["paper"])}
    made |= {"experiments": experiments(found["experiments"]), "toy": toy(found["toy"])}
    made |= {"throughput": throughput(found["throughput"]), "haste": haste(found["haste"])}
    made |= {"longform": longform(found["longform"]), "words": words(found["words"])}
    made |= {"converted": converted(found["converted"])}
    return made | {"analyses": analyses(root / "docs" / "figures" / "analyses")}


def main() -> None:
    for name, page in pages().items():
        write(ROOT / "docs" / "results" / f"{name}.md", page)
    record = json.loads((ROOT / "runs" / "logs" / "words.json").read_text("utf-8"))
    card = ROOT / "models" / "de-en" / "MODEL_CARD.md"
    before, begin, rest = card.read_text("utf-8").partition("<!-- scores: begin -->\n")
    _, end, after = rest.partition("\n<!-- scores: end -->")
    write(card, f"{before}{begin}{word_table(record)}{end}{after}")


if __name__ == "__main__":
    main()
