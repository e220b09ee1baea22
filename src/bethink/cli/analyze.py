"""`bethink analyze`: the analyses of the paper, and of noise in the source."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bethink.cli.common import DEFAULT, Verbs, add_model, add_policy, console, count, open_translator, verb
from bethink.errors import MissingExtra, UsageError
from bethink.policy import Policy, WaitK, load, parse

if TYPE_CHECKING:
    from bethink.analysis.gold import Gold
    from bethink.toy import AlignedPair
    from bethink.translator import Translator

TOY_SEED = 102  # of the sentences used when the model speaks the toy language and no files are given
LAGS = (1, 3, 5, 7, 9)
THRESHOLDS = ((0.2, 0), (0.4, 0), (0.6, 0), (0.8, 0), (1, 0), (1, 0.4), (1, 0.8))  # of adaptive-wait-k, from the paper


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "analyze",
        "analyse a model, its policies or results, as the paper does",
        "Runs one of the analyses below: those of the paper, robustness and calibration. Each prints tables. With --out it also writes "
        "them as Markdown, the numbers as JSON and a picture as SVG.",
        (
            "degree --source rwth.de --target rwth.en --alignment rwth.talp --out analyses",
            "alignment --source rwth.de --target rwth.en --alignment rwth.talp",
            "ablation ped=results/ped no-pe=results/no-pe --out analyses",
            "redraw analyses/degree.json --out slides",
        ),
        run,
    )
    kinds = made.add_subparsers(
        title="analyses", metavar="ANALYSIS", dest="analysis", required=True, parser_class=type(made)
    )
    for add_kind in (_add_degree, _add_alignment, _add_overlap, _add_ablation, _add_robustness, _add_calibration):
        add_kind(kinds)
    _add_redraw(kinds)


def run(args: argparse.Namespace) -> int:
    _require_extra()
    _show(args.analysis, args.analyse(args), args.out)
    return 0


def _require_extra() -> None:
    from bethink.evaluate import quality

    if not quality.available():
        raise MissingExtra("bethink analyze", "train")


def _show(name: str, record: Any, folder: str | None) -> None:
    from bethink.analysis import catalogue

    out = console()
    for sheet in catalogue.CATALOGUE[name].sheets(record):
        out.print(sheet.table())
    if folder:
        catalogue.save(Path(folder), name, record)
        out.print(f"written: {folder}/{name}.json, .md and .svg", markup=False, soft_wrap=True)


def _add_kind(
    kinds: Verbs, name: str, summary: str, about: str, examples: tuple[str, ...], analyse: Callable[..., Any]
) -> argparse.ArgumentParser:
    made = verb(kinds, name, summary, about, examples, run)
    made.set_defaults(analyse=analyse)
    made.add_argument("--out", metavar="DIR", help=f"write {name}.json, {name}.md and {name}.svg there")
    return made


def _add_pairs(made: argparse.ArgumentParser, *, aligned: bool = True, limit: int = 500) -> None:
    source = "source sentences, one per line (default: the toy language's own, if the model speaks it)"
    made.add_argument("--source", metavar="FILE", help=source)
    made.add_argument("--target", "--reference", dest="target", metavar="FILE", help="their translations, line by line")
    made.add_argument("--limit", type=count, default=limit, metavar="N", help=f"look at N pairs (default: {limit})")
    if aligned:
        alignment = "which words translate each other: 3-4 for sure, 3p4 possibly, from 1"
        made.add_argument("--alignment", metavar="FILE", help=alignment)
        made.add_argument("--sure", action="store_true", help="leave the possible links out")
        as_is = "leave tokenised text as it is (default: punctuation moves to its word if the model has subwords)"
        made.add_argument("--as-is", action="store_true", help=as_is)


def _pairs(args: argparse.Namespace, translator: Translator) -> list[AlignedPair]:
    from bethink import toy
    from bethink.analysis.gold import read_pairs

    if args.source is None and translator.about.get("toy"):
        return list(toy.sentences(args.limit, TOY_SEED))
    for flag in ("source", "target"):
        if getattr(args, flag) is None:
            raise UsageError(f"--{flag} is missing; this analysis needs --source FILE --target FILE")
    alignment = getattr(args, "alignment", None)
    return read_pairs(args.source, args.target, alignment, sure=getattr(args, "sure", False), limit=args.limit)


def _gold(args: argparse.Namespace, translator: Translator) -> list[Gold]:
    from bethink.analysis.gold import golden

    return [golden(translator, pair, tidy=False if args.as_is else None) for pair in _pairs(args, translator)]


def _add_degree(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "degree",
        "how well the translation degree predicts whether a word can be written",
        "Gives the model the targets of word-aligned pairs, token by token along wait-k paths. Measures how well the gain of the degree, "
        "the model's confidence, and both together tell whether the source of a token has been read (AUC); whether the degree agrees "
        "with what has been translated; how it grows, and by how much; and how a policy decides by it.",
        (
            "--model toy",
            "--source rwth.de --target rwth.en --alignment rwth.talp --policy pe:k=3,rho=0.2,r=4 --out analyses",
        ),
        _degree,
    )
    _add_pairs(made, limit=200)
    add_policy(made, several=True)
    lags = "wait-k paths to measure along (default: 1 3 5)"
    made.add_argument("--k", type=count, nargs="+", default=[1, 3, 5], metavar="K", help=lags)
    add_model(made)


def _degree(args: argparse.Namespace) -> Any:
    from bethink.analysis import degree

    translator = open_translator(args)
    return degree.look(translator, _gold(args, translator), args.policy or [translator.policy], [*args.k, None])


def _add_alignment(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "alignment",
        "whether policies read enough and not too much, by word alignments",
        "Runs policies over given translations: each policy decides by the model's own numbers, but the words of the given translation "
        "are written. Sufficiency is the share of aligned words whose source had been read when they were begun. Necessity is the share "
        "of the source read by then that these words needed.",
        ("--model toy", "--source rwth.de --target rwth.en --alignment rwth.talp --policy wait-k:3 pe:k=3,rho=0.2,r=4"),
        _alignment,
    )
    _add_pairs(made)
    add_policy(made, several=True)
    add_model(made)


def _alignment(args: argparse.Namespace) -> Any:
    from bethink.analysis import alignment

    translator = open_translator(args)
    return alignment.paths(translator, _gold(args, translator), args.policy or _compared(translator))


def _compared(translator: Translator) -> list[Policy]:
    """By default: wait-k, adaptive-wait-k and, at several k, the policy that the model recommends."""
    own = translator.policy
    fixed: list[Policy] = [WaitK(k) for k in (*LAGS, 13, 17)]  # up to 17, so that slow policies can be compared, too
    adaptive = [parse(f"adaptive:{high},{low},10") for high, low in THRESHOLDS]
    varied = [dataclasses.replace(own, k=k) for k in LAGS] if hasattr(own, "k") and not isinstance(own, WaitK) else []  # type: ignore[type-var]
    return [*fixed, *adaptive, *varied]


def _add_overlap(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "overlap",
        "how many of the words written and read can be predicted from the capsules",
        "Takes the likeliest words of the constraint heads along wait-k paths with given translations, and counts how many of the words "
        "written (R^T, 7 guesses) and read (R^S, 15 guesses) are among them. Exported models have no constraint heads, so --model must "
        "be the folder of a PED run, or its model folder.",
        ("--model runs/tiny-ped", "--model runs/de-en-ped --source test.de --target test.en --k 1 5 9"),
        _overlap,
    )
    _add_pairs(made, limit=200)
    lags = "wait-k paths (default: 1 3 5 7 9)"
    made.add_argument("--k", type=count, nargs="+", default=list(LAGS), metavar="K", help=lags)
    add_model(made)


def _overlap(args: argparse.Namespace) -> Any:
    from bethink import folder
    from bethink.analysis import overlap
    from bethink.model.constraints import ConstraintProbe

    probe = ConstraintProbe.load(folder.Folder.open(folder.find(args.model or DEFAULT)))
    translator = open_translator(args)
    return overlap.overlap(translator.name, probe, _gold(args, translator), args.k)


def _add_ablation(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "ablation",
        "compare systems on one test set, with bootstrap confidence",
        "Reads the results of several evaluations of the same test set and compares every system with the first: AL, BLEU, their "
        "differences, the 95 % interval, and p of a paired bootstrap test.",
        ("ped=results/ped no-pe=results/no-pe no-disturbed=results/plain", "results/a results/b --policy wait-k:5"),
        _ablation,
    )
    systems = "a results.json or its folder; the first is the baseline"
    made.add_argument("systems", nargs="+", metavar="[NAME=]RESULTS", help=systems)
    only = "only these policies"
    made.add_argument("--policy", type=load, nargs="+", action="extend", default=[], metavar="SPEC", help=only)
    counted = "how BLEU is counted (default: paper)"
    made.add_argument("--profile", choices=("paper", "standard"), default="paper", help=counted)
    samples = "resamples of the bootstrap (default: 1000)"
    made.add_argument("--samples", type=count, default=1000, metavar="N", help=samples)


def _ablation(args: argparse.Namespace) -> Any:
    from bethink.analysis import ablation

    systems: dict[str, str] = {}
    for text in args.systems:
        name, equals, path = text.partition("=")
        systems[name if equals else Path(text).name] = path if equals else text
    if len(systems) < len(args.systems):
        raise UsageError(
            "two systems have the same name; give each its own, as in: ped=results/ped plain=results/plain"
        )
    entries = ablation.load(systems, [str(policy) for policy in args.policy])
    return ablation.compare(entries, args.profile, args.samples)


def _add_robustness(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "robustness",
        "quality and latency when the source is noisy",
        "Translates the same test set without punctuation, in lower case, in capitals, with typing errors, with repeated words, with "
        "hesitations, with five sentences joined into one, and with some words replaced by words of the target language. Reports the "
        "change of BLEU and LAAL, and counts empty outputs and endless repetitions.",
        ("--source test.de --target test.en --policy wait-k:5 pe:k=3",),
        _robustness,
    )
    _add_pairs(made, aligned=False)
    add_policy(made, several=True)
    add_model(made)


def _robustness(args: argparse.Namespace) -> Any:
    from bethink.analysis import robustness

    translator = open_translator(args)
    texts = [(pair.source, pair.target) for pair in _pairs(args, translator)]
    return robustness.robustness(translator, texts, args.policy or [translator.policy])


def _add_calibration(kinds: Verbs) -> None:
    made = _add_kind(
        kinds,
        "calibration",
        "whether words are right as often as their stability says",
        "Translates live, then looks again, with the whole source, at the words that were written before the source was complete. Groups "
        "them by their stability and counts how many are still right, perhaps not in the wording that the model would choose now, and how "
        "many it would write again letter for letter. Needs a model with a judge.",
        ("--source dev.de --limit 500", "--source dev.de --policy weigh wait-k:3 --out analyses"),
        _calibration,
    )
    made.add_argument("--source", required=True, nargs="+", metavar="FILE", help="texts, a sentence on each line")
    made.add_argument("--limit", type=count, default=500, metavar="N", help="use N lines of each (default: 500)")
    add_policy(made, several=True)
    add_model(made)


def _calibration(args: argparse.Namespace) -> Any:
    from bethink import folder
    from bethink.analysis import calibration
    from bethink.files import read_lines
    from bethink.train.hindsight import ForcedDecoder

    translator = open_translator(args)
    decoder = ForcedDecoder.load(folder.Folder.open(folder.find(args.model or DEFAULT)))
    texts = {Path(name).stem: read_lines(name)[: args.limit] for name in args.source}
    return calibration.calibration(translator, texts, args.policy or [translator.policy], decoder)


def _add_redraw(kinds: Verbs) -> None:
    made = verb(
        kinds,
        "redraw",
        "make tables and pictures again from saved numbers",
        "Reads the JSON that an analysis wrote and makes its tables and pictures again, without a model or a text.",
        ("analyses/*.json --out slides",),
        _redraw,
    )
    made.add_argument(
        "records", nargs="+", metavar="JSON", help="files that analyses wrote, with their names unchanged"
    )
    made.add_argument("--out", metavar="DIR", help="write tables and pictures there")


def _redraw(args: argparse.Namespace) -> int:
    from bethink.analysis import catalogue

    _require_extra()
    for name, record in map(catalogue.load, args.records):
        _show(name, record, args.out)
    return 0
