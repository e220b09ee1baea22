"""All errors that bethink raises on purpose. Each message is one sentence that tells the user what to do.

BethinkError
├── UsageError         a wrong flag, name or setting; the command line exits with 2
├── ModelError         a model folder that is missing, damaged, or cannot do what was asked
├── DataError          a corpus, log or input file that cannot be used
├── TrainingError      training that cannot start, continue or finish
└── MissingExtra       a part of bethink that was not installed
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class BethinkError(Exception):
    """The base class: catch it to catch every error that bethink raises on purpose."""

    exit_code = 1


class UsageError(BethinkError):
    exit_code = 2


class ModelError(BethinkError):
    pass


class DataError(BethinkError):
    pass


class TrainingError(BethinkError):
    pass


class MissingExtra(BethinkError):
    """An optional part is missing; the message names the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the '{extra}' extra; install it with: {install_command(extra)}")


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """For imports: report a missing package as a missing extra. A missing module of bethink itself is a bug and stays an exception."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "bethink":
            raise
        raise MissingExtra(what, extra) from error


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation (from a clone, a wheel, a URL or an index)."""
    import json
    import shlex
    import shutil
    from importlib import metadata

    beside = shutil.which("pip") == str(Path(sys.executable).with_name("pip"))
    install = "pip install" if beside else f"{shlex.quote(sys.executable)} -m pip install"
    clone = Path(__file__).parents[2]
    if (clone / "src" / "bethink").is_dir() and (clone / "pyproject.toml").is_file():
        return f"{install} -c {shlex.quote(f'{clone}/constraints.txt')} -e {shlex.quote(f'{clone}[{extra}]')}"
    try:
        came_from = json.loads(metadata.distribution("bethink").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        came_from = {}
    if "url" not in came_from:
        return f"{install} 'bethink[{extra}]'"
    url = came_from["url"]
    if repository := came_from.get("vcs_info"):
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    return f"{install} {shlex.quote(f'bethink[{extra}] @ {url}')}"


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name: lists the known names and suggests the closest one."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UsageError(f"no {kind} named '{name}'; there are {', '.join(names)}.{hint}")
