"""`bethink evaluate` scores policies on a test set; `bethink plot` draws the scores as curves."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from bethink.cli.common import (
    Verbs,
    above_zero,
    add_glossary,
    add_model,
    add_policy,
    bars,
    console,
    count,
    open_translator,
    verb,
)
from bethink.errors import MissingExtra, ModelError, UsageError

if TYPE_CHECKING:
    from bethink.evaluate import Result
    from bethink.policy import Policy
    from bethink.translator import Translator

BELONGS = {"align_text": "haste", "alignments": "haste", "lower": "longform", "unpunctuated": "longform"}
APART = {
    ("haste", "longform"): "--haste is measured on sentences; leave out --longform",
    ("tail", "longform"): "--tail is measured on sentences; leave out --longform",
    ("clock", "longform"): "--longform always measures the computing time; leave out --clock",
    ("model", "models"): "--model and --models cannot be combined; give one of them",
}


def add(verbs: Verbs) -> None:
    _add_evaluate(verbs)
    _add_plot(verbs)


def _add_evaluate(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "evaluate",
        "measure quality and latency of policies on a test set",
        "Translates a test set with every policy given, through the same engine that translates live, and writes results.json and, "
        "for each policy, an instances.log that SimulEval and OmniSTEval read. Every latency names its profile and every BLEU its "
        "signature. With the policy offline among them, it also counts the negations, numbers and names that each policy loses or "
        "invents and the whole-sentence translation does not. Scores are computed from the log alone: --rescore repeats that "
        "without a model. With --longform each talk is fed as one text, and its log is one that 'omnisteval longform' reads.",
        (
            "--source test.de --reference test.en --policy wait-k:3 wait-k:5 pe:k=3 --out results",
            "--source test.de --reference test.en --clock --wpm 150 --out results",
            "--longform --source talk.de --reference talk.en --lower --unpunctuated --out results",
            "--model toy --source data/tiny/test.source.txt --reference data/tiny/test.target.txt --out results",
            "--source test.de --reference test.en --policy offline wait-k:5 --out results",
            "--rescore results/*/instances.log",
            "--rescore results/*/instances.log --haste --align-text train.de train.en",
        ),
        run,
    )
    several = "; several files only with --longform"
    made.add_argument("--source", nargs="+", metavar="FILE", help="source sentences, one per line" + several)
    made.add_argument("--reference", nargs="+", metavar="FILE", help="their translations, line by line" + several)
    made.add_argument("--out", metavar="DIR", help="the folder for results.json and the logs")
    add_policy(made, several=True)
    made.add_argument(
        "--batch", type=count, default=64, metavar="N", help="sentences translated together (default: 64)"
    )
    clock = "translate one sentence at a time and measure the time, for computation-aware latency"
    made.add_argument("--clock", action="store_true", help=clock)
    speed = "the speaker's words per minute, for --clock and --longform (default: 150)"
    made.add_argument("--wpm", type=above_zero, default=150.0, metavar="N", help=speed)
    talks = (
        "feed each talk as one text, as in live use, without its sentence boundaries: measures quality after re-segmentation, LongYAAL "
        "without and with computing time, drift, stalls and loops; an empty line, or the end of a file, ends a talk"
    )
    made.add_argument("--longform", action="store_true", help=talks)
    made.add_argument("--lower", action="store_true", help="with --longform: the source in lower case")
    made.add_argument("--unpunctuated", action="store_true", help="with --longform: the source without punctuation")
    ahead = (
        "also count the words that a reader sees change if the words that may come next are shown (per word written)"
    )
    made.add_argument("--tail", action="store_true", help=ahead)
    early = "also count the words that are shown before the source words they translate (needs the align extra, takes minutes)"
    made.add_argument("--haste", action="store_true", help=early)
    more = "with --haste: files of sentences and their translations that the aligner also learns from; a few thousand lines help"
    made.add_argument("--align-text", nargs=2, metavar=("SOURCE", "TARGET"), help=more)
    gold = "with --haste: word alignments of the references made by people, lines of links such as 3-4 (sure) and 3p4 (possible)"
    made.add_argument("--alignments", metavar="FILE", help=gold)
    add_model(made)
    add_glossary(made)
    lags = "one model per lag, wait-1 first, for adaptive-wait-k as first published"
    made.add_argument("--models", nargs="+", metavar="DIR", help=lags)
    made.add_argument(
        "--rescore", nargs="+", metavar="LOG", help="compute the scores of these logs again, without model or text"
    )
    whole = "with --rescore: the log of the same model's whole-sentence translations (default: that of offline beside each log)"
    made.add_argument("--whole", metavar="LOG", help=whole)
    spoken = "with --rescore: the languages of logs without a results.json beside them, as in de-en"
    made.add_argument("--languages", dest="spoken", default="", metavar="FROM-TO", help=spoken)


def run(args: argparse.Namespace) -> int:
    from bethink import evaluate

    _require_consistent(args)
    if args.rescore:
        results = [_rescored(Path(log), args.whole, args.spoken) for log in args.rescore]
        results = _with_haste(args, results, Path()) if args.haste else results
        if args.out:
            evaluate.write_results(Path(args.out) / "results.json", results)
    else:
        results = _evaluated(args)
        if args.haste:
            results = _with_haste(args, results, Path(args.out))
            scored = {result.policy: result for result in (*evaluate.load_results(args.out), *results)}
            evaluate.write_results(Path(args.out) / "results.json", list(scored.values()))
    console().print(evaluate.table(results))
    return 0


def _require_consistent(args: argparse.Namespace) -> None:
    """Checked before translating, which may take hours."""
    for flag, other in BELONGS.items():
        if getattr(args, flag) and not getattr(args, other):
            raise UsageError(f"--{flag.replace('_', '-')} belongs to --{other}; add that")
    for (one, other), reason in APART.items():
        if getattr(args, one) and getattr(args, other):
            raise UsageError(reason)
    for flag in ("source", "reference", "out") if not args.rescore else ():
        given = getattr(args, flag)
        if given is None:
            raise UsageError(
                f"--{flag} is missing; evaluating needs --source FILE --reference FILE --out DIR, or --rescore LOG"
            )
        if isinstance(given, list) and len(given) > 1 and not args.longform:
            raise UsageError(f"--{flag} has {len(given)} files; give one, or add --longform")
    if args.haste and importlib.util.find_spec("eflomal") is None:
        raise MissingExtra("--haste", "align")


def _evaluated(args: argparse.Namespace) -> list[Result]:
    from bethink import evaluate
    from bethink.evaluate import longform

    if args.longform:
        talks = longform.load_talks(args.source, args.reference)
        talks = longform.as_heard(talks, lower=args.lower, unpunctuated=args.unpunctuated)
    else:
        sources, references = evaluate.load_pairs(args.source[0], args.reference[0])
    translator = _per_lag(args) if args.models else open_translator(args)
    policies = args.policy or [translator.policy]
    with bars() as told:

        def progress(policy: Policy, done: int, total: int) -> None:
            told(str(policy), done, total)

        if args.longform:
            return longform.evaluate(translator, talks, policies, args.out, wpm=args.wpm, progress=progress)
        options = {"batch": args.batch, "clock": args.clock, "wpm": args.wpm, "tail": args.tail}
        return evaluate.evaluate(translator, sources, references, policies, args.out, progress=progress, **options)


def _with_haste(args: argparse.Namespace, results: list[Result], folder: Path) -> list[Result]:
    from bethink import evaluate
    from bethink.evaluate import haste

    text = list(zip(*evaluate.load_pairs(*args.align_text), strict=True)) if args.align_text else ()
    logs = [folder / result.log for result in results]
    return haste.with_haste(results, logs, text=text, alignments=args.alignments)


def _rescored(log: Path, whole: str | None, spoken: str) -> Result:
    """Scores from the log; names of model, policy and languages from results.json beside it or, without that, from its folder."""
    from bethink import evaluate
    from bethink.evaluate import longform

    beside = log.absolute().parent.parent / "results.json"
    known = evaluate.load_results(beside) if beside.is_file() else []
    found = next((result for result in known if beside.parent / result.log == log.absolute()), None)
    spoken = spoken or (found.spoken if found else "")
    scores = longform.rescore(log) if longform.is_longform(log) else evaluate.rescore(log, whole, spoken)
    if found:
        return dataclasses.replace(found, scores=scores, log=str(log), spoken=spoken)
    return evaluate.Result("unknown", log.absolute().parent.name, scores, str(log), spoken=spoken)


def _per_lag(args: argparse.Namespace) -> Translator:
    from bethink.backend.per_lag import PerLag
    from bethink.policy import AdaptiveWaitK
    from bethink.text import alike
    from bethink.translator import Translator

    options = {"backend": args.backend, "device": args.device, "threads": args.threads}
    models = [Translator(model, **options) for model in args.models]
    first = models[0]
    for model, name in zip(models, args.models, strict=True):
        for side in ("source", "target"):
            if not alike(getattr(first, side), getattr(model, side)):
                raise ModelError(
                    f"{name} and {args.models[0]} have different {side} vocabularies; the models of --models must share theirs"
                )
    per_lag, name = PerLag([model.backend for model in models]), f"{first.name} and {len(models) - 1} more"
    policy = AdaptiveWaitK(k_max=max(len(models), 2))
    made = Translator.of(per_lag, first.source, first.target, name=name, policy=policy)
    made.fingerprint = "+".join(model.fingerprint for model in models)
    return made


def _add_plot(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "plot",
        "draw quality against latency",
        "Draws the results of one or more evaluations as quality-latency curves: one per model and kind of policy, offline as a dashed "
        "line, 95 % bootstrap intervals as bands if the logs are there. The ending of the file name sets the format.",
        (
            "results --out curve.svg",
            "results/ours results/baseline --out curve.pdf",
            "results --latency AL --profile paper --out paper.svg   # as the PED paper counts: model tokens",
        ),
        run_plot,
    )
    made.add_argument("results", nargs="+", metavar="RESULTS", help="a results.json or its folder")
    made.add_argument("--out", required=True, metavar="FILE", help="the picture: .svg, .png or .pdf")
    measures = "AL, LAAL, AP, DAL, CW or YAAL (default: LAAL)"
    made.add_argument("--latency", default="LAAL", metavar="MEASURE", help=measures)
    profiles = ("simuleval", "paper", "clock", "longform")
    counted = "how latency is counted: simuleval in words, paper in model tokens, the others in ms (default: simuleval)"
    made.add_argument("--profile", default="simuleval", choices=profiles, help=counted)
    made.add_argument("--quality", default="BLEU", choices=("BLEU", "chrF"), help="default: BLEU")
    counted = "how quality is counted (default: paper with --profile paper, else standard)"
    made.add_argument("--quality-profile", choices=("paper", "standard"), help=counted)


def run_plot(args: argparse.Namespace) -> int:
    from bethink.evaluate import plots

    results, logs = plots.load(args.results)
    plots.curves(results, args.out, args.latency, args.profile, args.quality, args.quality_profile, logs)
    print(args.out)
    return 0
