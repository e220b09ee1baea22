"""Compare systems on equal terms: fine-tune each from one base model for as many updates, evaluate them, and make the tables.

    python runs/compare.py train runs/de-en de-en train.compile=true --data data/de-en --from runs/de-en/base --updates 3000
    python runs/compare.py judge runs/de-en --source text.de              # systems that are others with a judge added
    python runs/compare.py evaluate runs/de-en --dev newstest2013 n13.de n13.en --test newstest2015 n15.de n15.en --device cuda
    python runs/compare.py tables runs/de-en --name de-en-comparison      # docs/results, docs/figures, runs/logs

The first argument is the folder that holds it all: a run per system, and results. What is done already is not done again, so each
command can be cut short and given again, and systems can be evaluated while others are still being trained. runs/systems.py says what the
systems are.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import report
from measure import Set, Task, attempt, chosen, plan, resolved
from systems import SYSTEMS, System

from bethink import folder
from bethink.errors import BethinkError, DataError, unknown
from bethink.evaluate import load_pairs, load_results
from bethink.train import checkpoint, log
from bethink.train.recipe import Recipe

ROOT = Path(__file__).parent.parent
SHARE = 0.4  # of the recipe's highest learning rate, with which fine-tuning begins


def main(argv: Sequence[str] | None = None) -> int:
    args = options().parse_args(argv)
    try:
        return args.do(args)
    except BethinkError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1


def options() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = made.add_subparsers(required=True, metavar="VERB")
    for do in (train, judge, evaluate, tables):
        verb = verbs.add_parser(do.__name__, help=(do.__doc__ or "").partition(";")[0], description=do.__doc__)
        verb.add_argument("work", type=Path, metavar="FOLDER", help="where the comparison lies")
        verb.add_argument("--systems", nargs="+", metavar="NAME", default=[system.name for system in SYSTEMS])
        verb.set_defaults(do=do)
    one, two, three, four = verbs.choices.values()
    one.add_argument("recipe", metavar="RECIPE")
    one.add_argument("settings", nargs="*", metavar="key=value", help="changes to the recipe, for all systems")
    one.add_argument("--data", type=Path, required=True, metavar="DIR", help="a folder made by 'bethink prepare'")
    one.add_argument(
        "--from", dest="base", metavar="DIR", help="the base model: a run or folder (default: from nothing)"
    )
    one.add_argument("--updates", type=int, metavar="N", help="of each system (default: the recipe's)")
    one.add_argument(
        "--rate", type=float, metavar="R", help=f"highest rate of fine-tuning (default: {SHARE} of the recipe's)"
    )
    one.add_argument(
        "--warmup", type=int, metavar="N", help="updates until it is reached (default: a fifteenth of all)"
    )
    one.add_argument("--lanes", type=int, default=1, metavar="N", help="systems trained side by side (default: 1)")
    two.add_argument(
        "--source", required=True, metavar="FILE", help="source text, one sentence per line, or prepared data"
    )
    two.add_argument("--lines", type=int, default=3000, metavar="N", help="to learn from (default: 3000)")
    for role, about in (("dev", "a set to choose settings on"), ("test", "a set to report")):
        metavar = ("NAME", "SOURCE", "REFERENCE")
        three.add_argument(f"--{role}", nargs=3, action="append", default=[], metavar=metavar, help=about)
    three.add_argument("--limit", type=int, metavar="N", help="take only the first N sentences of the dev sets")
    three.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes; several have one thread each (default: 1)"
    )
    three.add_argument("--batch", type=int, default=64, metavar="N", help="sentences translated together (default: 64)")
    three.add_argument("--device", metavar="NAME", help="where torch computes (default: a GPU if there is one)")
    four.add_argument("--name", required=True, help="of the page, the record and the pictures")
    four.add_argument(
        "--base", default="multi-path", metavar="SYSTEM", help="whose wait-k curve others are compared with"
    )
    four.add_argument("--profile", choices=("standard", "paper"), default="standard", help="of pictures and bootstrap")
    four.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="holds docs and runs (default: this tree)")
    return made


def selected(args: argparse.Namespace) -> list[System]:
    named = {system.name: system for system in SYSTEMS}
    for name in args.systems:
        if name not in named:
            raise unknown("system", name, named)
    return [named[name] for name in named if name in args.systems]


# training


def train(args: argparse.Namespace) -> int:
    """Train every system that has a model of its own; from one base model, for as many updates each."""
    systems = [system for system in selected(args) if system.settings and fits(system, args.data)]
    same = ["--data", str(args.data), *(["--from", args.base] if args.base else [])]

    def one(system: System) -> int:
        print(f"{system.name}: training", flush=True)
        return bethink(["train", args.recipe, *settings(system, args), *same, "--run", str(args.work / system.name)])

    with ThreadPoolExecutor(args.lanes) as lanes:
        failed = [system.name for system, code in zip(systems, lanes.map(one, systems), strict=True) if code]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def fits(system: System, data: Path) -> bool:
    """Whether the data has what a system learns from."""
    taught = any(word in system.settings for word in ("system=aligned", "losses.degree"))
    if not taught or (data / "train.source.links.npy").is_file():
        return True
    print(f"{system.name}: left out, since {data} has no word alignments; they come with data.align=true", flush=True)
    return False


def settings(system: System, args: argparse.Namespace) -> list[str]:
    """The same budget and rate for all; fine-tuning brings the rate down to nothing."""
    recipe = Recipe.load(args.recipe, args.settings).train
    updates = args.updates or recipe.updates
    equal: dict[str, Any] = {"updates": updates}
    if args.base:
        rate, warmup = args.rate or recipe.rate * SHARE, args.warmup or updates // 15
        equal |= {"rate": rate, "warmup": warmup, "schedule": "linear", "seed": recipe.seed + 1}
    once = {"validate": updates, "average": 1, "keep": 1, "tensorboard": "false"}
    return [
        *args.settings,
        *(f"train.{key}={value}" for key, value in (equal | once).items()),
        *system.settings.split(),
    ]


def bethink(command: list[str]) -> int:
    """In a process of its own, so that nothing of one system, a failure included, is left for the next."""
    return subprocess.run([sys.executable, "-m", "bethink", *command], check=False).returncode


def judge(args: argparse.Namespace) -> int:
    """Add judges to the trained systems that are to have one."""
    failed = 0
    for system in selected(args):
        model = args.work / system.name / checkpoint.MODEL
        if not system.judges or model.is_dir():
            continue
        if not (args.work / system.judges / checkpoint.MODEL).is_dir():
            print(f"{system.name}: left out, since {system.judges} is not trained", flush=True)
            continue
        print(f"{system.name}: learning from the translations of {system.judges}", flush=True)
        command = ["judge", str(args.work / system.judges), "--source", args.source, "--lines", str(args.lines)]
        failed += bool(bethink([*command, "--to", str(model)]))
    return 1 if failed else 0


# evaluating


def evaluate(args: argparse.Namespace) -> int:
    """Run every trained system with its policies; what was chosen on the development sets and the random baselines come last."""
    tests = [Set("dev", *files, limit=args.limit) for files in args.dev] + [Set("test", *files) for files in args.test]
    for test in tests:
        load_pairs(test.source, test.reference)  # what cannot be read is told before anything is computed
    ready = []
    for system in selected(args):
        places = {
            name: (args.work / name / folder.CONFIG, args.work / name / "model" / folder.CONFIG)
            for name in system.parts
        }
        if missing := [name for name, there in places.items() if not any(path.is_file() for path in there)]:
            print(f"{system.name}: not evaluated, since there is no model in {', '.join(missing)}", flush=True)
        else:
            ready.append(system)
    work = functools.partial(attempt, device=args.device, batch=args.batch, threads=int(args.jobs > 1))
    failed: dict[Task, str] = {}
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        run = pool.map if args.jobs > 1 else map
        while todo := [t for t in plan(args.work, ready, tests) if t not in failed and t.result() is None]:
            for task, (ok, line) in zip(todo, run(work, todo), strict=True):
                print(line, flush=True)
                if not ok:
                    failed[task] = line
    for line in failed.values():
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


# the tables


def tables(args: argparse.Namespace) -> int:
    """Write tables, pictures and the record of all results."""
    systems = selected(args)
    folders = sorted((args.work / "results").glob("*/*"), key=lambda path: (path.parent.name, path.name))
    tests = [Set(path.parent.name, path.name) for path in folders]
    if not tests:
        raise DataError(f"{args.work} holds no results; make them with: python runs/compare.py evaluate {args.work}")
    labels = {system.name: system.label for system in systems}
    sets: list[dict[str, Any]] = []
    for test in tests:
        tasks = {
            (system.name, str(task.policy)): task
            for system in systems
            for pattern in system.policies
            for option in chosen(args.work, system, pattern, tests)
            for task in resolved(args.work, test, system, option)
        }
        found = [(task.folder, result) for task in tasks.values() if (result := task.result())]
        if not found:
            names = ", ".join(system.name for system in systems)
            raise DataError(f"{test.name} has no results of {names}; make them with compare.py evaluate")
        sets.append({"role": test.role, "name": test.name} | report.analysed(found, labels, args.base, args.profile))
        if test.role == "dev":  # what was not chosen is kept, too
            places = sorted((args.work / "results" / "dev" / test.name).glob("*/*/results.json"))
            sets[-1]["tried"] = [report.summary(result) for path in places for result in load_results(path)]
    for system in systems:
        if (path := args.work / system.name / log.FILE).is_file():
            report.write(args.root / "runs" / "logs" / f"{args.name}-{system.name}.jsonl", path.read_text())
    record = {"profile": args.profile, "base": args.base, "labels": labels, "sets": sets}
    report.publish(record, args.name, args.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
