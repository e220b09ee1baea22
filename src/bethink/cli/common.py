"""What the commands share: help texts, common flags, opening a model, progress bars."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from bethink.policy import listed, load

if TYPE_CHECKING:
    from rich.console import Console

    from bethink.text import Glossary
    from bethink.translator import Translator

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
DEFAULT = "de-en"  # the model when none is named


def verb(
    verbs: Verbs,
    name: str,
    summary: str,
    about: str,
    examples: tuple[str, ...],
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add a command: `summary` for the list of commands, `about` and `examples` for its own help."""
    made = verbs.add_parser(name, help=summary, description=about, formatter_class=Help)
    made.epilog = "examples:\n" + "\n".join(f"  {made.prog} {example}".rstrip() for example in examples)
    made.set_defaults(run=run)
    return made


class Help(argparse.RawDescriptionHelpFormatter):
    """Wraps the description to the width of the terminal, but leaves policies and examples as they are."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):  # argparse does not count their extra indent
            self._action_max_length += 2

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(("examples:", "policies ")):
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


def add_model(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    where = "a model folder, or the name of one in ./models, $BETHINK_MODELS, the user's cache or the package (default: de-en)"
    parser.add_argument("--model", metavar="NAME|DIR", nargs="+" if several else None, help=where)
    add_threads(parser)
    backend = "the library that computes (default: onnx if the model has ONNX graphs)"
    parser.add_argument("--backend", choices=("onnx", "torch"), help=backend)
    device = "the device for torch, as in cuda:0 (default: a GPU if there is one)"
    parser.add_argument("--device", metavar="NAME", help=device)


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=count, default=0, metavar="N", help="processor threads (default: all cores)")


def add_policy(parser: argparse.ArgumentParser, *, several: bool = False, more: str = "") -> None:
    """--policy with one value, or with several."""
    known = "\n".join(f"  {spec}\n      {about}" for spec, about in listed())
    parser.epilog = f"policies and their defaults:\n{known}\n\n{parser.epilog}"
    advice = (
        f"when to write: a policy listed below, or module:Class for your own{more} (default: what the model recommends)"
    )
    if several:
        parser.add_argument("--policy", type=load, nargs="+", action="extend", metavar="SPEC", default=[], help=advice)
    else:
        parser.add_argument("--policy", type=load, metavar="SPEC", help=advice)


def add_glossary(parser: argparse.ArgumentParser) -> None:
    form = "terms and how to write them: a tab between both, one pair per line, or a .toml file; # begins a comment"
    parser.add_argument("--glossary", metavar="FILE", help=form)


def open_glossary(args: argparse.Namespace) -> Glossary | None:
    from bethink.text import Glossary

    return Glossary.load(args.glossary) if getattr(args, "glossary", None) else None


def open_translator(args: argparse.Namespace) -> Translator:
    from bethink.translator import Translator

    options = {"backend": args.backend, "device": args.device, "threads": args.threads}
    options["repair"] = getattr(args, "repair", False)
    return Translator(args.model or DEFAULT, glossary=open_glossary(args), **options)


def add_repair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repair",
        action="store_true",
        help="after a sentence whose negation or number was lost, add a correction; German and English only",
    )


def describe(translator: Translator) -> str:
    """The model's name and, if there is one, its description."""
    about = translator.about.get("description") or translator.about.get("recipe") or ""
    return f"{translator.name} ({about})" if about else translator.name


def console(*, stderr: bool = False) -> Console:
    """The console for tables; 160 columns if the output is a file or a pipe."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=160)


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """Progress bars on a terminal; call the result with the name of a part, how much is done, and the total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    out = console(stderr=True)
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=out, disable=not out.is_terminal) as progress:

        def told(part: str, done: int, total: int) -> None:
            if part not in tasks:
                tasks[part] = progress.add_task(part, total=total)
            progress.update(tasks[part], completed=done)

        yield told


def count(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' must be a whole number of at least 1")
    return value


def above_zero(text: str) -> float:
    """A number above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' must be a number above 0")
    return value
