"""How light bethink is: the cold start of its help and of the first word, the memory of a translating process, the size of an install.

    python benchmarks/startup.py                           installs the base dependencies into a temporary environment, a minute or two
    python benchmarks/startup.py --skip-install            without that, seconds
    python benchmarks/startup.py --model toy --text "te riki nakoru , ne ruru wa homuran haturu ."
    python benchmarks/startup.py --quick                   one turn each, nothing installed

Every start is a process of its own, so nothing is warm but the disk. The first word is the time from starting Python to the first
text of the translation, a whole sentence being there at once; memory is the most that process ever held. The install is what
`pip install` of this folder, with its base dependencies and nothing else, puts on disk; the models that come with it count apart.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import shared

ROOT = Path(__file__).resolve().parents[1]
MODELS = "models"
BUDGETS = {"help": 0.2, "memory": 400.0, "installed": 160.0}  # seconds, megabytes, megabytes
FIRST_WORD = """
import json, sys, time
from bethink import Action, Translator
translator = Translator(sys.argv[1], threads=1)
loaded = time.perf_counter()
first = None
for step in translator.stream([sys.argv[2]]):
    if first is None and step.action is Action.WRITE and step.text:
        first = time.perf_counter()
from bethink.cli.bench import peak_memory
print(json.dumps({"loaded_to_first": first - loaded, "memory": peak_memory()}))
"""


def main() -> None:
    options = arguments()
    with shared.progress() as tell, shared.workshop() as folder:
        facts: dict[str, Any] = {"python_alone": median(bare, options.turns, tell, "starting Python")}
        begun = os.times()
        facts["help"] = median(ask_for_help, options.turns, tell, "asking for help")
        facts["help_computing"] = round((computing(os.times()) - computing(begun)) / options.turns, 4)
        runs = [first_word(options, tell) for _ in range(options.turns)]
        facts |= {name: round(statistics.median(run[name] for run in runs), 4) for name in runs[0]}
        if not options.skip_install:
            facts["packages"] = installed(folder, tell)
            facts["installed"] = round(sum(size for name, size in facts["packages"].items() if name != MODELS), 1)
    shared.save(options.json, {"model": options.model, "turns": options.turns, **facts})
    report(facts)


def arguments() -> argparse.Namespace:
    made = shared.parser(__doc__, "startup", picture=False)
    made.add_argument("--model", default="de-en", help="a model folder, or the name of one (default: de-en)")
    made.add_argument("--text", default="Guten Morgen, meine Damen und Herren.", help="what to translate")
    made.add_argument("--turns", type=int, default=7, help="of which the median counts (default: 7)")
    made.add_argument("--skip-install", action="store_true", help="do not measure the size of an install")
    options = made.parse_args()
    if options.quick:
        options.turns, options.skip_install = 1, True
    return options


def median(act: Any, turns: int, tell: Any, what: str) -> float:
    times = []
    for turn in range(turns):
        tell(f"{what}: turn {turn + 1} of {turns}")
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return round(statistics.median(times), 4)


def computing(times: os.times_result) -> float:
    """Processor time of the processes started so far: what it would take on a machine with nothing else to do."""
    return times.children_user + times.children_system


def run(*argv: str) -> str:
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(f"this failed: {' '.join(argv[:3])}\n{done.stderr}")
    return done.stdout


def bare() -> None:
    run("-c", "pass")


def ask_for_help() -> None:
    run("-m", "bethink", "--help")


def first_word(options: argparse.Namespace, tell: Any) -> dict[str, float]:
    """Seconds to the first word, from the start and from the loaded model, and megabytes at the most."""
    tell("the first word")
    begun = time.perf_counter()
    found = json.loads(run("-c", FIRST_WORD, options.model, options.text))
    return {"first_word": time.perf_counter() - begun, **found}


def installed(folder: Path, tell: Any) -> dict[str, float]:
    """Megabytes of a real install by packages, models apart; what installs it does not count."""
    tell("installing: this takes a minute")
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", ROOT], check=True, stderr=subprocess.PIPE)
    place = next((folder / "environment").rglob("site-packages"))
    sizes: dict[str, float] = {}
    for package in importlib.metadata.distributions(path=[str(place)]):
        name = package.metadata["Name"]
        files = [Path(str(file.locate())) for file in package.files or []]
        if name not in ("pip", "setuptools"):
            for file in filter(Path.is_file, files):
                kind = MODELS if file.resolve().is_relative_to(place.resolve() / "bethink" / "models") else name
                sizes[kind] = round(sizes.get(kind, 0) + file.stat().st_size / 1e6, 6)
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def report(facts: dict[str, Any]) -> None:
    rows = [
        ["Python alone", f"{facts['python_alone']:.3f} s", ""],
        ["bethink --help", f"{facts['help']:.3f} s", f"{BUDGETS['help']} s"],
        ["  of it processor time", f"{facts['help_computing']:.3f} s", ""],
        ["first word, from a cold start", f"{facts['first_word']:.3f} s", ""],
        ["first word, model loaded", f"{facts['loaded_to_first']:.3f} s", ""],
        ["peak memory while translating", f"{facts['memory']:.0f} MB", f"{BUDGETS['memory']:.0f} MB"],
    ]
    if "installed" in facts:
        rows.append(
            ["installed on disk, without models", f"{facts['installed']:.0f} MB", f"{BUDGETS['installed']:.0f} MB"]
        )
        rows += [[f"  {name}", f"{size:.1f} MB", ""] for name, size in facts["packages"].items() if size >= 1]
    shared.show("Starting and staying light", ["", "measured", "budget"], rows)


if __name__ == "__main__":
    main()
