"""The command line: the list of commands. Every error becomes one sentence on stderr and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from bethink import __version__
from bethink.cli import analyze, bench, captions, convert, evaluate, explain, listen, serve, train, translate
from bethink.cli.common import Help
from bethink.errors import BethinkError, DataError, UsageError, unknown

FAMILIES = (translate, listen, serve, captions, explain, evaluate, analyze, train, convert, bench)
INTERRUPTED, PIPE_CLOSED = 130, 141  # what a shell reports for the signals SIGINT and SIGPIPE


class Parser(argparse.ArgumentParser):
    """Argparse that raises its errors as UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="bethink",
        description="Simultaneous translation that thinks before it speaks: text comes in word by word, the translation goes out "
        "word by word, and a policy decides before every word whether to read on or to write.",
        epilog="examples:\n"
        "  echo 'Guten Morgen, meine Damen und Herren!' | bethink translate\n"
        "  bethink translate --watch --rate 150 speech.txt\n"
        "  bethink COMMAND --help\n"
        "  shtab --shell bash bethink.cli.parser      # prints completion for bash, zsh or tcsh (pip install shtab)",
        formatter_class=Help,
    )
    top.add_argument("--version", action="version", version=f"bethink {__version__}")
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for family in FAMILIES:
        family.add(verbs)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # UTF-8, whatever the locale says
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")
    try:
        if sys.stdout is None:  # the next file opened would get its number, and what is printed would go into that file
            raise DataError("there is no standard output to write to; send it to /dev/null if it is not wanted")
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except (BethinkError, OSError, KeyboardInterrupt) as error:
        if os.environ.get("BETHINK_TRACEBACK") == "1":
            raise
        return _fail(error)
    return code


def _run(argv: Sequence[str]) -> int:
    top = parser()
    if not argv:
        top.print_help(sys.stderr)
        return 2
    if not argv[0].startswith("-") and argv[0] not in _verbs(top):
        raise unknown("command", argv[0], _verbs(top))  # argparse would suggest none
    try:
        args, rest = top.parse_known_args(argv)
    except SystemExit as done:  # after --help and --version
        return int(done.code or 0)
    _take_settings(args, rest, _command(top, argv))
    code: int = args.run(args)
    return code


def _take_settings(args: argparse.Namespace, rest: Sequence[str], command: argparse.ArgumentParser) -> None:
    """Argparse accepts `key=value` only right after the recipe; accept it after flags too."""
    if (flag := next((word for word in rest if word.startswith("-")), None)) is not None:
        raise unknown(f"option of {command.prog}", flag.partition("=")[0], list(command._option_string_actions))
    if rest and not hasattr(args, "settings"):
        raise UsageError(f"unrecognized arguments: {' '.join(rest)}; see: {command.prog} --help")
    if rest:
        args.settings = [*args.settings, *rest]


def _verbs(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of its commands, if it has any."""
    return next((each.choices for each in command._actions if isinstance(each, argparse._SubParsersAction)), {})


def _command(top: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.ArgumentParser:
    """The command that was asked for, as in `bethink analyze degree`."""
    for word in argv:
        if word not in _verbs(top):
            break
        top = _verbs(top)[word]
    return top


def _fail(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OSError):
        _abandon_stdout()
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        what = (error.strerror or str(error)).lower()
        told = f"{error.filename}: {what}" if error.filename is not None else f"cannot go on: {what}"
    else:
        told = " ".join(str(error).split())
    print(f"bethink: {told}", file=sys.stderr)
    return error.exit_code if isinstance(error, BethinkError) else 1


def _abandon_stdout() -> None:
    """Otherwise Python would try to write the rest at exit and report the error again."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
