"""`bethink prepare`, `train`, `average`, `distill`, `judge` and `export`: from a corpus to a model folder (with the 'train' extra)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bethink.cli.common import Verbs, add_threads, bars, count, verb
from bethink.errors import UsageError, needs_extra

FEW = 1000  # lines, below which a judge learns little


def add(verbs: Verbs) -> None:
    _add_prepare(verbs)
    _add_train(verbs)
    _add_average(verbs)
    _add_distill(verbs)
    _add_judge(verbs)
    _add_export(verbs)


def _add_prepare(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "prepare",
        "turn a corpus into training data",
        "Reads the recipe's corpora, cleans and tokenises them, learns the vocabularies and stores the ids. The folder appears only when "
        "it is complete; one that was prepared from the same files is left as it is. The dev and test sets stay in it as text for "
        "'bethink evaluate': dev.source.txt, dev.target.txt, test.source.txt and test.target.txt.",
        (
            "tiny                                       # the toy language needs no files; it goes to data/tiny",
            "de-en --data corpora",
            "de-en --data corpora --out data/small text.size=8000",
            "de-en --data my-corpora --out data/mine --like models/de-en",
        ),
        run_prepare,
    )
    _add_recipe(made)
    made.add_argument(
        "--data", default=".", metavar="DIR", help="the folder with the corpora (default: the current one)"
    )
    made.add_argument("--out", metavar="DIR", help="the folder to create (default: data/RECIPE)")
    what = "use the vocabularies of this prepared folder or model, in order to continue training it"
    made.add_argument("--like", metavar="DIR", help=what)


def run_prepare(args: argparse.Namespace) -> int:
    with needs_extra("preparing data", "train"):
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
        "train a model, or continue training",
        "Trains the recipe's model on prepared data. After an interruption the same command continues from the last checkpoint, with the "
        "same result as without one. At the end the last checkpoints are averaged into RUN/model, a folder that every command takes as "
        "--model. On several GPUs: torchrun --nproc-per-node=8 -m bethink train …",
        (
            "tiny",
            "tiny system=ped --from runs/tiny-multi-path --run runs/tiny-ped",
            "de-en system=wait-k paths.k=5 --data data/de-en --run runs/wait-5",
            "mine.toml --data data/mine --from models/opus-fr-en      # a converted model: its architecture is used",
            "de-en model.decoder_layers=6 --from models/de-en --grow  # more layers, and the vocabulary of the data",
        ),
        run_train,
    )
    _add_recipe(made)
    made.add_argument("--data", metavar="DIR", help="a folder made by 'bethink prepare' (default: data/RECIPE)")
    run = "the folder of the run, new or to be continued (default: runs/RECIPE-SYSTEM)"
    made.add_argument("--run", dest="folder", metavar="DIR", help=run)
    made.add_argument("--from", dest="init", metavar="DIR", help="a run or model folder with the initial weights")
    more = "with --from: the model may have fewer layers, another vocabulary, or a causal encoder for a bidirectional one; it grows to "
    more += "fit the recipe and the data"
    made.add_argument("--grow", action="store_true", help=more)
    _add_device(made)


def run_train(args: argparse.Namespace) -> int:
    with needs_extra("training", "train"):
        from bethink.model.device import keep_freed_memory
        from bethink.train.checkpoint import architecture
        from bethink.train.loop import train
        from bethink.train.recipe import Recipe
    if args.grow and not args.init:
        raise UsageError("--grow is for --from: it fits the model to begin with to the recipe")
    keep_freed_memory()
    recipe = Recipe.load(args.recipe, args.settings)
    data, folder = args.data or f"data/{recipe.name}", Path(args.folder or f"runs/{recipe.name}-{recipe.system}")
    init = Path(args.init) if args.init else None
    if converted := architecture(init or folder):
        recipe = Recipe.load(args.recipe, args.settings, converted)
    model = train(recipe, Path(data), folder, init, args.device, grow=args.grow)
    if os.environ.get("RANK", "0") == "0":  # under torchrun, only one process prints
        print(model)
    return 0


def _add_average(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "average",
        "average the last checkpoints of a run into a model",
        "Averages the weights of the newest checkpoints of a run and writes them as the model folder RUN/model, which replaces the one "
        "that training made.",
        (
            "runs/tiny-ped",
            "runs/tiny-ped --last 3",
            "runs/de-en-further/run --with models/de-en --share 0.75    # forgets less of what it knew",
        ),
        run_average,
    )
    made.add_argument("folder", metavar="RUN", help="a run of 'bethink train'")
    made.add_argument("--last", type=count, metavar="N", help="number of checkpoints (default: as in the recipe)")
    before = "the run or model that this run began with: the result is a mean of both, and keeps more of what it knew"
    made.add_argument("--with", dest="other", metavar="DIR", help=before)
    part = "with --with: the part of the run in that mean, between 0 and 1 (default: 0.5)"
    made.add_argument("--share", type=float, metavar="PART", help=part)


def run_average(args: argparse.Namespace) -> int:
    if args.share is not None and not args.other:
        raise UsageError("--share belongs to --with; add that")
    with needs_extra("averaging checkpoints", "train"):
        from bethink.train.checkpoint import average
    print(
        average(
            Path(args.folder),
            args.last,
            Path(args.other) if args.other else None,
            0.5 if args.share is None else args.share,
        )
    )
    return 0


def _add_distill(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "distill",
        "let a teacher translate the training data of a student",
        "A teacher, usually larger and trained on whole sentences, translates a corpus in large batches. A student learns more easily "
        "from its translations than from human ones. With prepared data (--data) the result is a prepared folder for 'bethink train'; the "
        "teacher must have the same vocabularies. With text (--source) the result is a text, line by line; no human translation is "
        "needed. With --view K the teacher sees only as much of the source as wait-K, so that its translations keep the order of the "
        "source; of those in the beam, the one is kept that fits the whole sentence best.",
        (
            "runs/teacher --data data/de-en --to data/de-en-distilled",
            "runs/teacher --data data/de-en --to data/de-en-monotone --beam 8 --view 7",
            "runs/teacher --source speeches.de --to speeches.en",
        ),
        run_distill,
    )
    made.add_argument("folder", metavar="TEACHER", help="a run of 'bethink train', or a model folder with weights")
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", metavar="DIR", help="a folder made by 'bethink prepare'")
    what.add_argument(
        "--source", metavar="FILE", help="sentences of the source language, one per line, also .gz or .xz"
    )
    made.add_argument("--to", required=True, metavar="DIR|FILE", help="the prepared folder, or the text, to create")
    made.add_argument("--keep", action="store_true", help="with --data: also keep the original pairs")
    also = "with --data: translate these sentences of the source language, too; one per line, also .gz or .xz"
    made.add_argument("--also", metavar="FILE", help=also)
    made.add_argument("--beam", type=count, default=1, metavar="N", help="hypotheses kept (default: 1, greedy search)")
    view = "see the source as wait-K does, for translations in the order of the source (default: see all of it)"
    made.add_argument("--view", type=count, default=0, metavar="K", help=view)
    _add_device(made)


def run_distill(args: argparse.Namespace) -> int:
    with needs_extra("distilling", "train"):
        from bethink.train.distill import Teacher, distill_data, distill_text
        from bethink.train.generate import Search
    if (args.keep or args.also) and not args.data:
        raise UsageError(f"{'--keep' if args.keep else '--also'} works only with --data")
    with bars() as progress:
        teacher = Teacher(Path(args.folder), Search(args.beam, args.view), args.device, progress)
        if args.data:
            also = Path(args.also) if args.also else None
            counts = distill_data(teacher, Path(args.data), Path(args.to), keep=args.keep, also=also)
            told = f"{counts['train pairs']:,} training pairs, {counts['left out']:,} left out: their translation did not end"
        else:
            told = f"{distill_text(teacher, Path(args.source), Path(args.to)):,} lines translated"
    print(f"{told}; {teacher.speed:,.0f} tokens/s", file=sys.stderr)
    print(args.to)
    return 0


def _add_judge(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "judge",
        "train the classifier that predicts which words will stay right",
        "The model translates text live, and a classifier (the judge) learns from that: will this token still be right once the full "
        "source is known? The policy 'weigh' asks the judge which words to write at once and which to put off. Needs only source text, a "
        "few thousand lines of the kind to be translated. The weights of the model do not change.",
        (
            "runs/de-en-aligned --source text.de --to runs/judged",
            "models/de-en --source my-domain.de --to models/mine --lines 3000",
        ),
        run_judge,
    )
    made.add_argument("folder", metavar="MODEL", help="a model folder, or a run of 'bethink train'")
    source = "sentences of the source language, one per line, also as .gz or .xz, or a folder made by 'bethink prepare'"
    made.add_argument("--source", required=True, metavar="FILE", help=source)
    made.add_argument("--to", required=True, metavar="DIR", help="the model folder to create")
    lines = "number of lines, chosen at random (default: 3000); each takes about 0.4 s on two cores"
    made.add_argument("--lines", type=count, default=3000, metavar="N", help=lines)
    made.add_argument("--seed", type=int, default=1, metavar="N", help="seed of that choice (default: 1)")
    _add_device(made)
    add_threads(made)


def run_judge(args: argparse.Namespace) -> int:
    with needs_extra("training a judge", "train"):
        from bethink.model.device import keep_freed_memory
        from bethink.train.judge import judge, sample_lines
    keep_freed_memory()
    chosen = sample_lines(Path(args.source), args.lines, args.seed, Path(args.folder))
    with bars() as progress:
        options = {"seed": args.seed, "device": args.device, "threads": args.threads}
        verdict = judge(Path(args.folder), chosen, Path(args.to), progress=progress, **options)
    judged, confidence = ("none" if auc is None else f"{auc:.3f}" for auc in (verdict.judged, verdict.confidence))
    print(
        f"{verdict.examples:,} held-out tokens, {verdict.stability:.1%} of which stay right: AUC of the judge {judged}, of the "
        f"model's confidence {confidence}; calibration error {verdict.error:.3f}",
        file=sys.stderr,
    )
    if len(chosen) < FEW:
        print(f"{len(chosen)} lines are few for a judge; better give it a few thousand", file=sys.stderr)
    if not verdict.helps:
        print(
            "the judge is no better than confidence; train it with more lines of the kind to be translated",
            file=sys.stderr,
        )
    print(args.to)
    return 0


def _add_export(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "export",
        "make a model folder that runs without PyTorch",
        "Writes the model of a run, or of another model folder, as ONNX graphs with its vocabularies, configuration and hashes: a "
        "folder that every command takes as --model and that needs no PyTorch.",
        (
            "runs/tiny-ped --to models/mine",
            "runs/de-en-ped --to models/de-en --about 'German to English, news and talks' --precision int8",
        ),
        run_export,
    )
    made.add_argument("folder", metavar="RUN", help="a run of 'bethink train', or a model folder")
    made.add_argument("--to", required=True, metavar="DIR", help="the model folder to create")
    precision = "float32, or int8 for a quarter of the size and more speed (default: float32)"
    made.add_argument("--precision", default="float32", metavar="NAME", help=precision)
    made.add_argument("--policy", metavar="SPEC", help="the policy to recommend (default: the run's)")
    made.add_argument("--name", help="the name of the model (default: that of its folder)")
    made.add_argument("--about", metavar="TEXT", help="a short description of the model for users")
    made.add_argument("--weights", action="store_true", help="include the weights, to run or train it with PyTorch")


def run_export(args: argparse.Namespace) -> int:
    from bethink.export import export

    about = {"description": args.about} if args.about else None
    name = args.name or Path(args.to).absolute().name
    options = {"precision": args.precision, "policy": args.policy, "name": name}
    print(export(Path(args.folder), Path(args.to), about=about, weights=args.weights, **options))
    return 0


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the name of a built-in recipe, or a TOML file")
    changes = "changes to the recipe, as in train.updates=5000 or system=wait-k"
    parser.add_argument("settings", nargs="*", metavar="key=value", help=changes)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1 … (default: a GPU if there is one)")
