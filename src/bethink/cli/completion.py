"""`bethink completion`: what a shell needs to complete commands and flags, made from the parser itself."""

from __future__ import annotations

import argparse

from bethink.cli.common import Verbs, verb

BASH = """\
_bethink() {{
    local words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="" ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{verbs}"
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _bethink bethink
"""
ZSH = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"  # zsh understands what bash does, once asked to


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "completion",
        "print what a shell needs to complete commands and flags",
        "Prints a few lines of shell that complete bethink's commands and flags. Add them to the file your shell starts with.",
        ("bash >> ~/.bashrc", "zsh >> ~/.zshrc"),
        run,
    )
    made.add_argument("shell", choices=("bash", "zsh"))


def run(args: argparse.Namespace) -> int:
    from bethink.cli import parser

    known = verbs(parser())
    cases = "\n".join(f'        {name}) words="{" ".join(flags(made))}" ;;' for name, made in known.items())
    print((ZSH if args.shell == "zsh" else "") + BASH.format(cases=cases, verbs=" ".join(known)), end="")
    return 0


def verbs(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name."""
    return next(dict(action.choices) for action in top._actions if isinstance(action, argparse._SubParsersAction))


def flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
