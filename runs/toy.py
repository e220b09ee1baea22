"""The paper's five systems on the toy language, three seeds: trains, streams and scores them, then writes table and figure.

    python runs/toy.py            about half an hour on two cores; what is already trained is not trained again

Writes docs/results/toy.md, docs/figures/toy.svg and runs/logs/toy*.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import report
from measure import per_lag

from bethink import toy
from bethink.analysis.degree import look
from bethink.analysis.gold import golden
from bethink.evaluate import Result, Scores, evaluate
from bethink.evaluate.plots import curves
from bethink.files import write
from bethink.policy import PostEvaluation, parse
from bethink.train.loop import train
from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe
from bethink.translator import Translator

WORK = report.ROOT / "runs" / "toy"
LAGS = (1, 3, 5, 7, 9, 13, 17)  # of wait-k
OWN = (1, 5, 9)  # the lags that have a wait-k model of their own
DEV, TEST = list(toy.sentences(200, seed=101)), list(toy.sentences(500, seed=102))
RHOS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)  # the dev set chooses
EQUAL = "train.updates=1050"  # as many as the PED model has behind it: 350 with multiple paths, 700 of its own
PATHS = {"full source": None, "wait-5": 5, "wait-3": 3, "wait-1": 1}  # along which d is looked at
BARS = ((0.4, 0), (0.6, 0), (0.8, 0), (1, 0), (1, 0.4), (1, 0.8))  # of adaptive-wait-k, from the paper's grid


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = options.parse_args()
    data = prepare(Recipe.load("tiny"), WORK, WORK / "data")
    found = {seed: study(dict(trained(data, seed)), seed) for seed in args.seeds}
    logs = report.ROOT / "runs" / "logs"
    for log in WORK.glob("*/log.jsonl"):
        write(logs / f"toy-{log.parent.name}.jsonl", log.read_bytes())
    mean = [average(group) for group in zip(*(results for results, _ in found.values()), strict=True)]
    facts = {seed: facts | {"gain": gains(results)} for seed, (results, facts) in found.items()}
    record = {"seeds": facts, "mean": [result.to_dict() for result in mean]}
    write(logs / "toy.json", json.dumps(record, indent=1) + "\n")
    drawn = [r for r in mean if r.model in ("offline", "ped", "multi-path") and not r.policy.startswith("pe-flip")]
    curves(drawn, report.ROOT / "docs" / "figures" / "toy.svg", "AL", "paper")
    write(report.ROOT / "docs" / "results" / "toy.md", report.toy(json.loads((logs / "toy.json").read_text("utf-8"))))


def trained(data: Path, seed: int) -> Iterator[tuple[str, Path]]:
    """Every system of the comparison under its name."""

    def run(name: str, *changes: str, init: Path | None = None) -> tuple[str, Path]:
        recipe = Recipe.load("tiny", [f"train.seed={seed}", *changes])
        return name, train(recipe, data, WORK / f"{name}-{seed}", init)

    yield run("start")
    yield run("ped", "system=ped", init=WORK / f"start-{seed}")
    yield run("offline", "system=offline", EQUAL)
    for k in OWN:
        yield run(f"wait-{k}", "system=wait-k", f"paths.k={k}", EQUAL)
    yield run("multi-path", EQUAL)


def study(models: dict[str, Path], seed: int) -> tuple[list[Result], dict[str, float]]:
    """Every system over the test sentences, and what the degree knows."""
    translators = {name: Translator(path) for name, path in models.items()}
    for name, translator in translators.items():
        translator.name = name
    ped, waiting = translators["ped"], [translators[f"wait-{k}"] for k in OWN]
    rho = choose_rho(ped, WORK / f"dev-{seed}")
    fixed, adaptive = [f"wait-k:{k}" for k in LAGS], [f"adaptive:{high},{low},10" for high, low in BARS]
    plans = [
        (translators["offline"], ["offline"]),
        *((model, [f"wait-k:{k}"]) for k, model in zip(OWN, waiting, strict=True)),
        (per_lag(waiting, OWN), adaptive),
        (translators["multi-path"], fixed + adaptive),
        (ped, [*fixed, *(f"wait-k:{k},1.3333" for k in LAGS[:4]), *adaptive, *(f"pe-flip:{k},0.12" for k in LAGS[:5])]),
        (ped, [f"pe:k={k},rho={rho},r={r}" for r in (2, 8) for k in (1, 3, 5, 7)]),
    ]
    results = [result for model, specs in plans for result in scored(model, specs, TEST, WORK / f"test-{seed}")]
    paths = look(ped, [golden(ped, pair) for pair in TEST[:200]], lags=list(PATHS.values())).paths
    known = {name: path.knowledge.auc for name, path in zip(PATHS, paths, strict=True) if path.knowledge}
    facts = {"accuracy": token_accuracy(translators["offline"]), "rho": rho}
    return results, facts | {f"auc {name}": value for name, value in known.items()}


def choose_rho(ped: Translator, out: Path) -> float:
    """The rho whose point gains most over the wait-k curve of the same model on the dev sentences."""
    curve = scored(ped, [f"wait-k:{k}" for k in LAGS], DEV, out)
    tried = {rho: scored(ped, [f"pe:k=1,rho={rho},r=8"], DEV, out)[0] for rho in RHOS}
    gained = {rho: gain for rho, result in tried.items() if (gain := above(result, curve)) is not None}
    return max(gained, key=lambda rho: gained[rho])


def above(result: Result, curve: Sequence[Result]) -> float | None:
    return report.above(result, curve, "AL", "paper", kind="paper")


def scored(translator: Translator, specs: Sequence[str], pairs: Sequence[toy.AlignedPair], out: Path) -> list[Result]:
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return evaluate(translator, sources, references, [parse(spec) for spec in specs], out / translator.name)


def token_accuracy(translator: Translator) -> float:
    """Target tokens that stand where they should; a missing or extra token is wrong."""
    right = total = 0
    for pair, found in zip(TEST, translator.translate_many([pair.source for pair in TEST], "offline"), strict=True):
        wanted, got = pair.target.split(), found.text.split()
        right += sum(a == b for a, b in zip(wanted, got, strict=False))
        total += max(len(wanted), len(got))
    return right / total


def gains(results: Sequence[Result]) -> dict[str, float]:
    """Each PE point over the wait-k curve of the same model, where that reaches."""
    ped = [result for result in results if result.model == "ped"]
    found = {result.policy: above(result, report.fixed(ped)) for result in ped if result.policy.startswith("pe:")}
    return {policy: round(gain, 2) for policy, gain in found.items() if gain is not None}


def average(group: Sequence[Result]) -> Result:
    """The seeds' scores of one point averaged; so is rho, which each seed's dev set chose."""
    first, policy = group[0].scores, parse(group[0].policy)
    latency = {
        profile: {name: float(np.mean([r.scores.latency[profile][name] for r in group])) for name in values}
        for profile, values in first.latency.items()
    }
    quality = {
        profile: {
            name: replace(value, score=float(np.mean([r.scores.quality[profile][name].score for r in group])))
            for name, value in values.items()
        }
        for profile, values in first.quality.items()
    }
    if isinstance(policy, PostEvaluation):
        rhos = [float(r.policy.partition("rho=")[2].partition(",")[0]) for r in group]
        policy = replace(policy, rho=round(float(np.mean(rhos)), 3))
    return replace(group[0], policy=str(policy), scores=Scores(first.sentences, latency, quality, first.erasure))


if __name__ == "__main__":
    main()
