"""`bethink prepare`, `train`, `average`, `judge` and `export`: from a corpus to a model folder. They need the 'train' extra."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bethink.cli.common import Verbs, bars, count, verb
from bethink.errors import MissingExtra

RECIPE = "the name of a built-in recipe, or a TOML file"
CHANGES = "changes to the recipe, as in train.updates=5000 or system=wait-k"


def add(verbs: Verbs) -> None:
    _add_prepare(verbs)
    _add_train(verbs)
    _add_average(verbs)
    _add_judge(verbs)
    _add_export(verbs)


def _add_prepare(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "prepare",
        "turn a corpus into what training reads",
        "Reads the recipe's corpora, cleans and tokenises them, learns the vocabularies and stores everything as packed numbers. The "
        "folder appears only when it is complete; a folder already prepared from the same files is left as it is. Its dev and test sets "
        "stay readable, for 'bethink evaluate': dev.source.txt, dev.target.txt, test.source.txt and test.target.txt.",
        (
            "tiny                                       # the toy language needs no files; it goes to data/tiny",
            "de-en --data corpora",
            "de-en --data corpora --out data/small text.size=8000",
            "de-en --data my-corpora --out data/mine --like models/de-en",
        ),
        run_prepare,
    )
    _add_recipe(made)
    made.add_argument("--data", default=".", metavar="DIR", help="where the recipe's corpora lie (default: here)")
    made.add_argument("--out", metavar="DIR", help="the folder to make (default: data/RECIPE)")
    made.add_argument(
        "--like",
        metavar="DIR",
        help="a prepared folder or a model whose vocabularies to take, so that training can go on from what was trained with them",
    )


def run_prepare(args: argparse.Namespace) -> int:
    with _extra("preparing data"):
        from bethink.train.prepare import prepare
        from bethink.train.recipe import Recipe
    recipe = Recipe.load(args.recipe, args.settings)
    like = Path(args.like) if args.like else None
    print(prepare(recipe, Path(args.data), Path(args.out or f"data/{recipe.name}"), like=like))
    return 0


def _add_train(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "train",
        "train a model, or go on training it",
        "Trains the recipe's model on prepared data. Stopped at any moment, the same command goes on from the last checkpoint as if "
        "nothing had happened. At the end the last checkpoints are averaged into RUN/model, a folder every command takes as --model. "
        "On several GPUs: torchrun --nproc-per-node=8 -m bethink train …",
        (
            "tiny",
            "tiny system=ped --from runs/tiny-multi-path --run runs/tiny-ped",
            "de-en system=wait-k paths.k=5 --data data/de-en --run runs/wait-5",
        ),
        run_train,
    )
    _add_recipe(made)
    made.add_argument("--data", metavar="DIR", help="a folder made by 'bethink prepare' (default: data/RECIPE)")
    made.add_argument(
        "--run", dest="folder", metavar="DIR", help="the run, new or one to go on with (default: runs/RECIPE-SYSTEM)"
    )
    made.add_argument("--from", dest="init", metavar="DIR", help="a run or model folder whose weights to begin with")
    made.add_argument(
        "--device", metavar="NAME", help="where to compute, as in cuda or cpu (default: a GPU if there is one)"
    )


def run_train(args: argparse.Namespace) -> int:
    with _extra("training"):
        from bethink.train.loop import train
        from bethink.train.recipe import Recipe
    recipe = Recipe.load(args.recipe, args.settings)
    data, folder = args.data or f"data/{recipe.name}", args.folder or f"runs/{recipe.name}-{recipe.system}"
    model = train(recipe, Path(data), Path(folder), Path(args.init) if args.init else None, args.device)
    if os.environ.get("RANK", "0") == "0":  # under torchrun, one process speaks for all
        print(model)
    return 0


def _add_average(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "average",
        "average the last checkpoints of a run into a model",
        "Averages the weights of the newest checkpoints of a run and writes them as the model folder RUN/model, in place of the one "
        "that training left there.",
        ("runs/tiny-ped", "runs/tiny-ped --last 3"),
        run_average,
    )
    made.add_argument("folder", metavar="RUN", help="a run of 'bethink train'")
    made.add_argument("--last", type=count, metavar="N", help="how many checkpoints (default: what the recipe says)")


def run_average(args: argparse.Namespace) -> int:
    with _extra("averaging checkpoints"):
        from bethink.train.checkpoint import average
    print(average(Path(args.folder), args.last))
    return 0


def _add_judge(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "judge",
        "teach a model to judge whether its words will stand",
        "Lets a model translate text live and learn from it, word by word, whether what it says having heard a part is what it would say "
        "having heard all. The policy 'weigh' then knows better what can be said at once and what should wait. Needs source text alone, a "
        "few thousand lines of the kind that will be translated; what the model says to given source does not change.",
        (
            "runs/de-en-aligned --source text.de --to runs/judged",
            "models/de-en --source my-domain.de --to models/mine --lines 3000",
        ),
        run_judge,
    )
    made.add_argument("folder", metavar="MODEL", help="a model folder, or a run of 'bethink train'")
    made.add_argument(
        "--source",
        required=True,
        metavar="FILE",
        help="text in the source language, a sentence per line, written as the model's training text is; .gz or .xz, too; or a folder made "
        "by 'bethink prepare', whose training sentences are taken",
    )
    made.add_argument("--to", required=True, metavar="DIR", help="the model folder to make")
    made.add_argument(
        "--lines",
        type=count,
        default=3000,
        metavar="N",
        help="so many lines, drawn by lot (default: 3000); about 0.4 s each on two cores",
    )
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of the lot (default: 1)")
    made.add_argument(
        "--device", metavar="NAME", help="where to compute, as in cuda or cpu (default: a GPU if there is one)"
    )
    made.add_argument(
        "--threads", type=count, default=0, metavar="N", help="processor threads to use (default: all cores)"
    )


def run_judge(args: argparse.Namespace) -> int:
    with _extra("teaching a model to judge"):
        from bethink.train.judge import drawn, judge
    chosen = drawn(Path(args.source), args.lines, args.seed, Path(args.folder))
    with bars() as told:
        options = {"seed": args.seed, "device": args.device, "threads": args.threads}
        verdict = judge(Path(args.folder), chosen, Path(args.to), told=told, **options)
    judged, confidence = (
        f"{value:.3f}" if value is not None else "none" for value in (verdict.judged, verdict.confidence)
    )
    print(
        f"{verdict.examples:,} proposals it had not seen, {verdict.stability:.1%} of which stand: AUC of its judgment {judged}, of its "
        f"confidence {confidence}",
        file=sys.stderr,
    )
    if not verdict.helps:
        print("it judges no better than that; teach it with more lines, of the kind to be translated", file=sys.stderr)
    print(args.to)
    return 0


def _add_export(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "export",
        "make a model folder that runs without PyTorch",
        "Writes the model of a run, or of another model folder, as ONNX graphs beside its vocabularies, configuration and hashes: a "
        "folder that every command takes as --model and that needs no PyTorch.",
        (
            "runs/tiny-ped --to models/mine",
            "runs/de-en-ped --to models/de-en --name de-en --about 'German to English, news and talks'",
        ),
        run_export,
    )
    made.add_argument("folder", metavar="RUN", help="a run of 'bethink train', or a model folder")
    made.add_argument("--to", required=True, metavar="DIR", help="the model folder to make")
    made.add_argument(
        "--precision",
        default="float32",
        metavar="NAME",
        help="of the weights: float32, or int8 for a quarter of the size and more speed (default: float32)",
    )
    made.add_argument("--policy", metavar="SPEC", help="the policy to recommend (default: the run's)")
    made.add_argument("--name", help="what the model is called (default: as its folder)")
    made.add_argument("--about", metavar="TEXT", help="what the model is, in a few words, for whoever uses it")
    made.add_argument(
        "--weights", action="store_true", help="also copy the weights, so that torch can run or train the model"
    )


def run_export(args: argparse.Namespace) -> int:
    with _extra("exporting a model"):
        from bethink.export import export
    about = {"description": args.about} if args.about else None
    name = args.name or Path(args.to).absolute().name
    options = {"precision": args.precision, "policy": args.policy, "name": name}
    print(export(Path(args.folder), Path(args.to), about=about, weights=args.weights, **options))
    return 0


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help=RECIPE)
    parser.add_argument("settings", nargs="*", metavar="key=value", help=CHANGES)


@contextmanager
def _extra(what: str) -> Iterator[None]:
    """A package that is not installed is a sentence, a module of ours that is missing a bug."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "bethink":
            raise
        raise MissingExtra(what, "train") from error
