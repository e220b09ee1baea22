"""What users feel, under `bethink analyze`: the lag behind a speaker, and what a source that is not clean costs."""

from __future__ import annotations

import argparse

from bethink.cli.analyses import Finding, Kinds, add_pairs, contrasts, kind, pairs, toy_pairs
from bethink.cli.common import above_zero, add_model, add_policy, count, open_translator
from bethink.errors import MissingExtra, UsageError


def _add_lag(kinds: Kinds) -> None:
    made = kind(
        kinds,
        "lag",
        "how far behind the speaker a reader is, computing included",
        "Says a text word by word at a given pace to one session and notes when each translated word is shown: p50, p95 and p99 of "
        "how long after the last word heard (what computing costs) and after the word at the same place of the sentence (what the "
        "reader feels).",
        ("--source talk.de --wpm 150", "--model toy --policy wait-k:3 pe:k=1,rho=0.2,r=8"),
        _lag,
    )
    made.add_argument("--source", metavar="FILE", help="the text (default: the toy language's, if the model speaks it)")
    made.add_argument("--limit", type=count, default=200, metavar="N", help="say N lines (default: 200)")
    made.add_argument(
        "--wpm", type=above_zero, default=150.0, metavar="N", help="words per minute of the speaker (default: 150)"
    )
    add_policy(made, several=True)
    add_model(made)


def _lag(args: argparse.Namespace) -> Finding:
    from bethink.evaluate.analyses import lag
    from bethink.evaluate.instances import read_lines

    translator = open_translator(args)
    if args.source is not None:
        lines = read_lines(args.source)[: args.limit]
    elif translator.about.get("toy"):
        lines = [pair.source for pair in toy_pairs(args.limit)]
    else:
        raise UsageError("--source is missing; give the text that is to be said with --source FILE")
    return lag.lags(translator, lines, args.policy or contrasts(translator), args.wpm)


def _add_robustness(kinds: Kinds) -> None:
    made = kind(
        kinds,
        "robustness",
        "what is lost when the source is not clean",
        "Translates the same test set without punctuation, in lower case, mistyped, stuttered, five sentences in one, and half "
        "translated; reports BLEU and AL lost, and counts empty outputs and endless repetitions.",
        ("--source test.de --target test.en --policy wait-k:5 pe:k=3",),
        _robustness,
    )
    add_pairs(made, aligned=False)
    add_policy(made, several=True)
    add_model(made)


def _robustness(args: argparse.Namespace) -> Finding:
    from bethink.evaluate import quality
    from bethink.evaluate.analyses import robustness

    if not quality.available():
        raise MissingExtra("scoring translation quality", "train")
    translator = open_translator(args)
    sources, references = zip(*((pair.source, pair.target) for pair in pairs(args, translator)), strict=True)
    return robustness.robustness(translator, sources, references, args.policy or [translator.policy])


ADD = (_add_lag, _add_robustness)
