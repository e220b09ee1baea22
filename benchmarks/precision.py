"""What int8 costs in words: one model in float32 and in int8, over the same sentences, and how often both decide alike.

    python benchmarks/precision.py runs/de-en-aligned --source newstest2013.de --reference newstest2013.en
    python benchmarks/precision.py --quick                 the toy model on sentences of its own language: seconds, to see that all works

The model must have its weights: a run of `bethink train`, or what `bethink judge` made of one. BLEU and latency are of each by itself. To
compare decisions, both are given the words that float32 wrote: how often does int8 come to where float32 stood, so much read and so much
written, and how often does it do the same there, READ or WRITE? (The toy model's weights are read back from its graphs.)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import shared

from bethink import toy
from bethink.analysis.forced import follow
from bethink.analysis.gold import Gold, Side
from bethink.errors import BethinkError
from bethink.evaluate import Result, evaluate, load_pairs
from bethink.export import export, write_like
from bethink.export.restore import load_any
from bethink.folder import WEIGHTS, Folder, find
from bethink.policy import Policy, parse
from bethink.text import EOS
from bethink.trace import Step
from bethink.translator import Translator

PRECISIONS = ("float32", "int8")
POLICIES = ("wait-k:k=3", "wait-k:k=7", "weigh:k=1,r=4,rate=1.2,rho=0.98", "weigh:k=3,r=8,rate=1.2,rho=0.98")
DECIDED = 500  # sentences whose decisions are compared


def main() -> None:
    options = arguments()
    policies = [parse(text) for text in options.policy]
    sources, references = texts(options)
    with shared.progress() as tell, shared.workshop() as folder:
        model = with_weights(options.model, folder / "weights")
        found: dict[str, list[Result]] = {}
        translators = {}
        for precision in PRECISIONS:
            export(model, folder / precision, precision=precision, name=precision)
            translators[precision] = Translator(folder / precision, threads=options.threads)
            tell(f"{precision}: {len(sources):,} sentences, {len(policies)} policies")
            place = folder / f"results-{precision}"
            found[precision] = evaluate(translators[precision], sources, references, policies, place)
        tell(f"decisions: {min(DECIDED, len(sources))} sentences")
        agreed = [agreement(*translators.values(), sources[:DECIDED], policy) for policy in policies]
    rows = [compared(*results, share) for *results, share in zip(*found.values(), agreed, strict=True)]
    facts = {"model": Path(options.model).name, "sentences": len(sources), "decided": min(DECIDED, len(sources))}
    signature = found["int8"][0].scores.quality["standard"]["BLEU"].signature
    shared.save(options.json, {**facts, "signature": signature, "results": rows})
    headings = ("policy", "BLEU float32", "int8", "difference", "LAAL float32", "int8", "decisions met", "made alike")
    shared.show("Float32 and int8", headings, [told(row) for row in rows], f"{options.json} written")


def arguments() -> argparse.Namespace:
    made = shared.parser(__doc__, "precision", picture=False)
    made.add_argument("model", nargs="?", default="toy", help="a run or model folder with weights (default: toy)")
    made.add_argument("--source", help="source sentences, one per line")
    made.add_argument("--reference", help="their translations, line by line")
    made.add_argument("--policy", nargs="+", default=POLICIES, metavar="SPEC", help="when to speak")
    made.add_argument("--threads", type=int, default=1, help="processor threads of the model (default: 1)")
    options = made.parse_args()
    if bool(options.source) != bool(options.reference):
        made.error("--source and --reference belong together")
    if options.quick:
        options.model, options.source, options.policy = "toy", None, ("wait-k:k=3", "pe:k=1,rho=0.25,r=8")
    return options


def texts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Those that were given, or the toy language's own."""
    if options.source:
        return load_pairs(options.source, options.reference)
    pairs = list(toy.sentences(20, seed=102))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def with_weights(name: str, to: Path) -> Path:
    """A model that can be exported; one that was shipped as graphs alone gets its weights back from them."""
    old = Folder.open(find(name))
    if old.has(WEIGHTS):
        return old.path
    write_like(load_any(old).eval(), old, to, weights=True)
    return to


def agreement(one: Translator, other: Translator, sources: Sequence[str], policy: Policy) -> tuple[float, float]:
    """Given the words that the first one wrote: the share of its decisions that the other comes to, and of these the ones it makes, too."""
    given = list(written(one, sources, policy))
    rules = [policy] * len(given)
    made = met = alike = 0
    for mine, theirs in zip(follow(one, given, rules), follow(other, given, rules), strict=True):
        decided, others = decisions(mine), decisions(theirs)
        made += len(decided)
        met += len(decided.keys() & others.keys())
        alike += len(decided.items() & others.items())
    return met / made, alike / met


def written(translator: Translator, sources: Sequence[str], policy: Policy) -> Iterator[Gold]:
    full = [source for source in sources if source.strip()]
    for source, translation in zip(full, translator.translate_many(full, policy), strict=True):
        words = tuple(tuple(word.ids) for word in translator.words(source))
        tokens = tuple((step.token,) for step in translation.writes if step.token != EOS)
        yield Gold(source, Side(words, ()), Side(tokens, ()), ())


def decisions(steps: Sequence[Step]) -> dict[tuple[int, int], bool]:
    """Where a sentence stood, in tokens read and written, and whether it was written next."""
    stood = [(0, 0), *((step.read, step.written) for step in steps)]
    return {here: after[1] > here[1] for here, after in pairwise(stood)}


def compared(float32: Result, int8: Result, agreed: tuple[float, float]) -> dict[str, str | float]:
    def of(result: Result) -> dict[str, float]:
        lags = result.scores.latency["simuleval"]
        return {
            "BLEU": result.scores.quality["standard"]["BLEU"].score,
            **{name: lags[name] for name in ("AL", "LAAL", "DAL")},
        }

    sides = {"float32": of(float32), "int8": of(int8)}
    flat = {f"{side}_{name}": round(value, 4) for side, values in sides.items() for name, value in values.items()}
    met, alike = agreed
    return {"policy": float32.policy, **flat, "decisions_met": round(met, 5), "decisions_alike": round(alike, 5)}


def told(row: dict[str, str | float]) -> list[str]:
    before, after = float(row["float32_BLEU"]), float(row["int8_BLEU"])
    lags = [f"{row[f'{side}_LAAL']:.2f}" for side in PRECISIONS]
    return [
        str(row["policy"]),
        f"{before:.2f}",
        f"{after:.2f}",
        f"{after - before:+.2f}",
        *lags,
        *(f"{row[name]:.2%}" for name in ("decisions_met", "decisions_alike")),
    ]


if __name__ == "__main__":
    try:
        main()
    except BethinkError as error:
        raise SystemExit(str(error)) from None
