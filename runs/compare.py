"""Every system of a comparison on equal terms: trained as branches of one trunk, evaluated, brought home, and put into tables.

    python runs/compare.py trunk runs/branches --like models/de-en        # where no run of multi-path is at hand: a shipped model as one
    python runs/compare.py train runs/de-en de-en train.compile=true --data data/de-en --from runs/de-en/trunk --updates 3000
    python runs/compare.py judge runs/de-en --source text.de              # systems that are others with a judge added
    python runs/compare.py evaluate runs/de-en --dev newstest2013 n13.de n13.en --test newstest2015 n15.de n15.en --jobs 8
    python runs/compare.py ship runs/de-en --to carry                     # unpacked elsewhere with: python runs/pack.py unpack
    python runs/compare.py tables runs/de-en --name de-en-comparison      # docs/results.md, docs/figures, runs/logs

The first argument is the folder that holds it all: a run per system, and results. What is done already is not done again, so each
command can be cut short and given again. runs/systems.py says what the systems are.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import report
import torch
from measure import Machine, Test, going_on, measure_all, rest
from pack import MEBIBYTE, pack
from safetensors.torch import load_file, save
from systems import SYSTEMS, System

from bethink.errors import BethinkError, DataError, UsageError, unknown
from bethink.export import export
from bethink.export.restore import load_any
from bethink.files import new_folder, write_atomically
from bethink.folder import WEIGHTS, Folder, create, find
from bethink.model.transformer import Transformer
from bethink.model.weights import fill, unique_tensors
from bethink.train import checkpoint, log
from bethink.train.data import manifest, read_manifest
from bethink.train.loop import FREE
from bethink.train.prepare import prepare as prepared
from bethink.train.recipe import Recipe, differences

ROOT = Path(__file__).parent.parent
COST = "cost.json"  # what a run took; also says that it is complete
CHILDREN: set[subprocess.Popen[bytes]] = set()  # trainers and judges at work
SHARE = 0.4  # of the recipe's highest learning rate, with which a branch begins


def main(argv: Sequence[str] | None = None) -> int:
    args = options().parse_args(argv)
    before = signal.signal(signal.SIGTERM, stop)
    try:
        result: int = args.do(args)
    except BethinkError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return result


def options() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = made.add_subparsers(required=True, metavar="VERB")

    def verb(do: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(do.__name__, help=summary, description=summary)
        made.add_argument("work", type=Path, metavar="FOLDER", help="where the comparison lies")
        made.add_argument("--systems", nargs="+", metavar="NAME", default=[system.name for system in SYSTEMS])
        made.set_defaults(do=do)
        return made

    zero = verb(trunk, "take a trained model, shipped ones too, for the trunk: without what only some systems have")
    zero.add_argument("--like", type=Path, required=True, metavar="DIR", help="the model")

    one = verb(train, "train every system, each a branch of equal length from one trunk")
    one.add_argument("recipe", metavar="RECIPE")
    one.add_argument("settings", nargs="*", metavar="key=value", help="changes to the recipe, for all systems")
    one.add_argument("--data", type=Path, required=True, metavar="DIR", help="a folder made by 'bethink prepare'")
    one.add_argument("--from", dest="trunk", metavar="DIR", help="a run or model folder (default: from the start)")
    one.add_argument("--updates", type=int, metavar="N", help="of each system (default: the recipe's)")
    one.add_argument("--seconds", type=float, metavar="S", help="that an update of multi-path takes, to predict by")
    one.add_argument("--within", type=float, metavar="S", help="begin no run that is predicted to end later")
    one.add_argument(
        "--lanes",
        type=positive,
        default=1,
        metavar="N",
        help="systems trained side by side, if there is room (default: 1)",
    )
    one.add_argument("--plan", action="store_true", help="only tell what is done, what is to do and how long it takes")

    like = verb(prepare, "prepare other corpora with the vocabularies of data or a model at hand, to go on with it")
    like.add_argument("recipe", metavar="RECIPE")
    like.add_argument("settings", nargs="*", metavar="key=value", help="changes to the recipe")
    like.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the recipe's corpora lie")
    like.add_argument("--like", type=Path, required=True, metavar="DIR", help="prepared data, or a model")

    verdict = verb(judge, "add judges to the trained systems that are to have one")
    verdict.add_argument(
        "--source",
        required=True,
        metavar="FILE",
        help="text of the source language, a sentence per line, or prepared data",
    )
    verdict.add_argument("--lines", type=int, default=3000, metavar="N", help="to learn from (default: 3000)")
    add_beside(verdict)

    two = verb(evaluate, "run every system with its policies")
    for role, told in (("dev", "a set to choose by"), ("test", "a set to report")):
        metavar = ("NAME", "SOURCE", "REFERENCE")
        two.add_argument(f"--{role}", nargs=3, action="append", default=[], metavar=metavar, help=told)
    two.add_argument(
        "--final", action="store_true", help="of the sets to choose by, only what choosing for the sets to report needs"
    )
    two.add_argument("--limit", type=int, metavar="N", help="take only the first N sentences of the sets to choose by")
    two.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes; several have one thread each (default: 1)"
    )
    two.add_argument("--batch", type=int, default=64, metavar="N", help="sentences translated together (default: 64)")
    two.add_argument(
        "--int8", action="store_true", help="each model as int8 graphs, as it would be shipped: quick on a CPU"
    )
    add_beside(two)
    two.add_argument("--device", metavar="NAME", help="where torch computes (default: a GPU if there is one)")

    three = verb(ship, "pack every trained model, its log and its cost into files that travel")
    three.add_argument("--to", type=Path, required=True, metavar="DIR")
    three.add_argument("--int8", action="store_true", help="as int8 ONNX graphs (default: weights in bfloat16)")
    three.add_argument("--size", type=float, default=14, metavar="MIB", help="of the largest part (default: 14)")

    four = verb(tables, "write tables, pictures and the record of all results")
    four.add_argument("--name", required=True, help="of the section, the record and the pictures")
    four.add_argument("--profile", choices=("standard", "paper"), default="standard", help="of pictures and bootstrap")
    four.add_argument(
        "--final", action="store_true", help="tell of the test sets alone; development sets are there to choose by"
    )
    four.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="holds docs and runs (default: this tree)")
    return made


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def add_beside(made: argparse.ArgumentParser) -> None:
    told = "wait for systems that are not trained yet as long as one of these processes goes on"
    made.add_argument("--beside", nargs="+", type=int, default=[], metavar="PID", help=told)


def selected(args: argparse.Namespace) -> list[System]:
    named = {system.name: system for system in SYSTEMS}
    for name in args.systems:
        if name not in named:
            raise unknown("system", name, named)
    return [system for system in SYSTEMS if system.name in args.systems]


# training


def trunk(args: argparse.Namespace) -> int:
    """Every system begins with the same knowledge, so none may find its capsules or its judge taught already."""
    old, to = Folder.open(find(args.like)), args.work / "trunk"
    if to.exists():
        print(f"{to} is there already")
        return 0
    plain = Transformer(dataclasses.replace(old.model, capsules=None, judge=0))
    known = unique_tensors(load_any(old))
    fill(plain, {name: known[name] for name in unique_tensors(plain)}, old.path)
    with new_folder(to) as folder:
        write_atomically(folder / WEIGHTS, save(unique_tensors(plain)))
        words = {"source": old.source, "target": old.target}
        about = {"from": old.name, "precision": "float32"}
        create(
            folder, name="trunk", model=plain.config, vocabularies=words, files=[WEIGHTS], policy="wait-k", about=about
        )
    print(to)
    return 0


def train(args: argparse.Namespace) -> int:
    began, failed = time.perf_counter(), []
    systems = [system for system in selected(args) if not (system.bank or system.judges) and fits(system, args.data)]
    todo = [system for system in systems if not (args.work / system.name / COST).is_file()]

    def attempt(system: System) -> None:
        if args.within and time.perf_counter() - began + (predicted(system, args) or 0) > args.within:
            print(f"{system.name}: left for another day", flush=True)
        elif not train_one(system, args):
            failed.append(system.name)

    if not args.plan:
        for system in (system for system in systems if system not in todo):
            require_same(system, args)
        with ThreadPoolExecutor(args.lanes) as lanes:
            attempts = [lanes.submit(attempt, system) for system in todo]
            try:
                for attempted in attempts:
                    attempted.result()
            except BaseException:  # whoever stops it wants no other system begun
                lanes.shutdown(wait=False, cancel_futures=True)
                raise
    tell_costs(systems, args)
    if failed:
        print(f"failed: {', '.join(failed)}; what they said is in {args.work}/SYSTEM.txt", file=sys.stderr)
    return 1 if failed else 0


def fits(system: System, data: Path) -> bool:
    """Whether the data has what a system learns from."""
    taught = any(word in system.settings for word in ("system=aligned", "losses.degree"))
    if not taught or (data / "train.source.links.npy").is_file():
        return True
    print(f"{system.name}: left out, since {data} has no word alignments; they come with data.align=true", flush=True)
    return False


def require_same(system: System, args: argparse.Namespace) -> None:
    """A finished run stands for what is asked for if it was trained so; one that was shipped no longer says how."""
    run = args.work / system.name
    if not (run / checkpoint.RECIPE).is_file():
        return
    old, new = Recipe.read(run / checkpoint.RECIPE), Recipe.load(args.recipe, settings(system, args))
    free = FREE - {"train.updates"}  # all systems have as many
    changed = [line for line in differences(old.to_dict(), new.to_dict()) if line.split(":")[0] not in free]
    if read_manifest(run / checkpoint.DATA, DataError)["fingerprint"] != manifest(args.data)["fingerprint"]:
        changed.append("other data")
    if changed:
        raise UsageError(f"{run} was trained otherwise ({'; '.join(changed)}); remove it, or compare in another folder")


def train_one(system: System, args: argparse.Namespace) -> bool:
    run = args.work / system.name
    before, start = updates_done(run), time.perf_counter()
    command = ["train", args.recipe, *settings(system, args)]
    command += ["--data", str(args.data), "--run", str(run), *(["--from", args.trunk] if args.trunk else [])]
    args.work.mkdir(parents=True, exist_ok=True)
    with (args.work / f"{system.name}.txt").open("a") as told:
        print(f"{system.name}: training", flush=True)
        if bethink(command, told):
            return False
    seconds = time.perf_counter() - start
    speeds = [record["tokens/s"] for record in log.read(run) if record["kind"] == "train"]
    cost = {"seconds": round(seconds, 1), "updates": updates_done(run) - before, "tokens/s": statistics.median(speeds)}
    write_atomically(run / COST, checkpoint.as_json(cost))
    return True


def bethink(command: list[str], told: IO[str]) -> int:
    """In a process of its own, so that nothing of one system, a failure included, is left for the next."""
    whole = [sys.executable, "-m", "bethink", *command]
    with subprocess.Popen(whole, stdout=told, stderr=subprocess.STDOUT) as child:
        CHILDREN.add(child)
        try:
            return child.wait()
        finally:
            CHILDREN.remove(child)


def stop(*_: object) -> None:
    """Ends what it began, too."""
    for child in list(CHILDREN):
        child.terminate()
    raise KeyboardInterrupt


def settings(system: System, args: argparse.Namespace) -> list[str]:
    """The same budget and rate for all; a branch takes the trunk's place and brings the rate down to nothing.

    They follow from the settings asked for, so they stand after those.
    """
    base = Recipe.load(args.recipe, args.settings).train
    updates = args.updates or base.updates
    equal = {"updates": updates, "rate": base.rate, "warmup": base.warmup, "schedule": base.schedule}
    if args.trunk:
        equal |= {"rate": base.rate * SHARE, "warmup": updates // 15, "schedule": "linear", "seed": base.seed + 1}
    once = {"validate": updates, "average": 1, "keep": 1, "tensorboard": "false"}
    return [
        *args.settings,
        *(f"train.{key}={value}" for key, value in (equal | once).items()),
        *system.settings.split(),
    ]


def updates_done(run: Path) -> int:
    saved = checkpoint.checkpoints(run)
    return int(checkpoint.read_state(saved[-1])["update"]) if saved else 0


def predicted(system: System, args: argparse.Namespace) -> float | None:
    """From what an update of multi-path takes, as told or as measured."""
    plain, base = args.work / "multi-path" / COST, Recipe.load(args.recipe, args.settings).train
    known = json.loads(plain.read_text()) if plain.is_file() else None
    each = args.seconds or (known["seconds"] / known["updates"] if known and known["updates"] else None)
    return each * system.cost * (args.updates or base.updates) if each else None


def tell_costs(systems: Sequence[System], args: argparse.Namespace) -> None:
    print(f"{'system':24} {'predicted s':>12} {'measured s':>12} {'updates':>8} {'tokens/s':>10}")
    total = 0.0
    for system in systems:
        path, guess = args.work / system.name / COST, predicted(system, args)
        cost = json.loads(path.read_text()) if path.is_file() else None
        known = f"{cost['seconds']:>12.1f} {cost['updates']:>8} {cost['tokens/s']:>10,.0f}" if cost else f"{'–':>12}"
        total += 0 if cost else guess or 0
        print(f"{system.name:24} {'–' if guess is None else f'{guess:.0f}':>12} {known}")
    if total:
        print(f"still to do: {total:.0f} s")


def prepare(args: argparse.Namespace) -> int:
    print(prepared(Recipe.load(args.recipe, args.settings), args.data, args.work, like=args.like))
    return 0


def judge(args: argparse.Namespace) -> int:
    todo = [system for system in selected(args) if system.judges and not (args.work / system.name / COST).is_file()]
    failed, told = 0, list[str]()
    while todo:
        trained = not going_on(args.beside)  # asked first: what is trained before the end must be seen
        ready = [system for system in todo if (args.work / system.judges / COST).is_file()]
        for system in ready:
            failed += not judge_one(system, args)
            todo.remove(system)
        if trained:
            break
        if not ready:
            told = rest([system.judges for system in todo], told)
    for system in todo:
        print(f"{system.name}: left out, since {system.judges} is not trained", flush=True)
    return 1 if failed else 0


def judge_one(system: System, args: argparse.Namespace) -> bool:
    run, start = args.work / system.name, time.perf_counter()
    print(f"{system.name}: learning from what {system.judges} says", flush=True)
    command = ["judge", str(args.work / system.judges), "--source", args.source, "--lines", str(args.lines)]
    with (args.work / f"{system.name}.txt").open("a") as told:
        if bethink([*command, "--to", str(run / checkpoint.MODEL)], told):
            return False
    write_atomically(run / COST, checkpoint.as_json({"seconds": round(time.perf_counter() - start, 1)}))
    return True


# evaluating, bringing home, telling


def evaluate(args: argparse.Namespace) -> int:
    tests = [Test("dev", name, source, reference, args.limit) for name, source, reference in args.dev]
    tests += [Test("test", name, source, reference) for name, source, reference in args.test]
    machine = Machine(args.device, args.batch)
    how = {"jobs": args.jobs, "int8": args.int8, "beside": args.beside, "final": args.final}
    failed = measure_all(args.work, selected(args), tests, machine, **how)
    for what in failed:
        print(f"failed: {what}", file=sys.stderr)
    return 1 if failed else 0


def ship(args: argparse.Namespace) -> int:
    for run in (args.work / system.name for system in selected(args)):
        if not (run / COST).is_file():
            continue
        with tempfile.TemporaryDirectory() as place:
            slim = Path(place) / run.name
            slim.mkdir()
            (export_int8 if args.int8 else halve)(run, slim / checkpoint.MODEL)
            for name in (log.FILE, COST):
                if (run / name).is_file():  # a judge leaves no log
                    write_atomically(slim / name, (run / name).read_bytes())
            print(pack(slim, args.to, int(args.size * MEBIBYTE), squeeze=False), flush=True)
    return 0


def export_int8(run: Path, to: Path) -> None:
    export(run, to, precision="int8", name=run.name)


def halve(run: Path, to: Path) -> None:
    """The model of a run with its weights in bfloat16: what training computed with, and half the size."""
    old = Folder.open(run / checkpoint.MODEL)
    to.mkdir()
    files = [name for name in (WEIGHTS, checkpoint.CONSTRAINTS) if old.has(name)]
    for name in files:
        tensors = load_file(old.path / name)
        write_atomically(to / name, save({key: tensor.to(torch.bfloat16) for key, tensor in tensors.items()}))
    words = {"source": old.source, "target": old.target}
    about = old.about | {"precision": "bfloat16"}
    create(to, name=run.name, model=old.model, vocabularies=words, files=files, policy=old.policy, about=about)


def tables(args: argparse.Namespace) -> int:
    systems = selected(args)
    record = report.gather(args.work, systems, args.profile, final=args.final)
    runs = [run for run in (args.work / system.name for system in systems) if (run / COST).is_file()]
    record["costs"] = {run.name: json.loads((run / COST).read_text()) for run in runs}
    report.publish(record, args.name, args.root)
    for run in runs:
        if (run / log.FILE).is_file():
            told = args.root / "runs" / "logs" / f"{args.name}-{run.name}.jsonl"
            write_atomically(told, (run / log.FILE).read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
