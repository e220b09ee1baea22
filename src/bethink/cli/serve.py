"""`bethink serve`: page, WebSocket and HTTP from one process."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from pathlib import Path

from bethink.cli.common import (
    DEFAULT,
    Verbs,
    above_zero,
    add_glossary,
    add_model,
    add_policy,
    add_repair,
    count,
    open_glossary,
    verb,
)
from bethink.errors import UsageError, needs_extra
from bethink.serve.auth import SECRET, TOKEN, Marks, read_secret, read_token
from bethink.serve.limits import Limits

FLAGS = [limit for limit in dataclasses.fields(Limits) if limit.metadata]


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "serve",
        "start the server: a page for people, a WebSocket for programs",
        "Serves a page on which people follow a speaker in another language, a WebSocket at /v1/stream for programs, "
        "POST /v1/translate for whole texts, /health and /metrics. Only this machine can reach it unless --host is given. "
        "The first Ctrl-C or SIGTERM finishes the open sentences; a second one ends at once.",
        (
            "",
            "--model de-en --port 9000",
            "--host 0.0.0.0 --token-file token.txt --origin https://live.example.org",
        ),
        run,
    )
    add_model(made, several=True)
    add_glossary(made)
    add_repair(made)
    add_policy(made, several=True, more="; the first is the default for clients, and your own ones are offered to them")
    made.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1, this machine only)"
    )
    made.add_argument(
        "--port", type=_port, default=8080, help="the port to listen on; 0 takes a free one (default: 8080)"
    )
    made.add_argument(
        "--batch", type=count, default=64, metavar="N", help="streams in one call of the model (default: 64)"
    )
    made.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"clients must send the token in this file (default: ${TOKEN}, else no token)",
    )
    made.add_argument(
        "--secret-file",
        metavar="FILE",
        help="keeps the secret that signs resume points, so that clients can resume after a restart of a full server; "
        f"made if it does not exist (default: ${SECRET}, else a new one at each start)",
    )
    made.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="the public address of the page, as in https://live.example.org, or another site that may use the server; may be repeated",
    )
    made.add_argument("--proxy", metavar="ADDRESS", help="trust X-Forwarded-For from the reverse proxy at this address")
    made.add_argument(
        "--rooms",
        metavar="DIR",
        type=Path,
        help="keep the text of rooms in this folder, so that they survive a restart",
    )
    made.add_argument(
        "--prefix",
        type=_prefix,
        default="/",
        metavar="PATH",
        help="the path under which a reverse proxy offers the server, as in /live; the proxy removes it from each request",
    )
    made.add_argument("--verbose", action="store_true", help="log when streams begin and end")
    for limit in FLAGS:
        default = f"{limit.default:,}".removesuffix(".0")
        made.add_argument(
            f"--max-{limit.name}",
            type=count if isinstance(limit.default, int) else above_zero,
            default=limit.default,
            metavar="N",
            help=f"limit: {limit.metadata['about']} (default: {default})",
        )


def run(args: argparse.Namespace) -> int:
    with needs_extra("serving", "serve"):
        from bethink.serve.auth import Access, is_local
        from bethink.serve.models import Model
        from bethink.serve.rooms import Rooms
        from bethink.serve.run import listen, server, set_up_log
        from bethink.serve.service import Service
    set_up_log(logging.INFO if args.verbose else logging.WARNING)
    limits = Limits(**{limit.name: getattr(args, f"max_{limit.name}") for limit in FLAGS})
    access = Access(args.host, args.origin, read_token(args.token_file))
    marks = Marks(read_secret(args.secret_file))
    rooms = Rooms(limits, args.rooms)
    with listen(args.host, args.port) as listening:  # before the models are loaded: the port may be taken
        policy = args.policy[0] if args.policy else None
        chosen = {"backend": args.backend, "device": args.device, "threads": args.threads}
        chosen |= {"policy": policy, "batch": args.batch, "glossary": open_glossary(args), "repair": args.repair}
        models = [Model.load(name, **chosen) for name in args.model or [DEFAULT]]
        names = [model.name for model in models]
        if len(set(names)) < len(names):
            raise UsageError(f"the models of --model are named {', '.join(names)}, but each needs a name of its own")
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(
            f"bethink: serving {', '.join(names)} on http://{shown}:{port}",
            file=sys.stderr,
            flush=True,
        )
        if not (access.needs_token or is_local(args.host)):
            print(
                "bethink: anyone who can reach this address can use it; --token-file makes a token necessary",
                file=sys.stderr,
            )
        if access.any_host:
            print(
                "bethink: it answers to any host name, also to one that a foreign page points at it; --origin names yours",
                file=sys.stderr,
            )
        service = Service(models, limits, access, marks, rooms)
        server(service, proxy=args.proxy, prefix=args.prefix).run(sockets=[listening])
    return 0


def _prefix(text: str) -> str:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or set(text) & set(" ?#"):
        raise argparse.ArgumentTypeError(f"'{text}' must be a path that begins with a slash, as in /live")
    return text.rstrip("/")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"'{text}' must be a whole number from 0 to 65535")
    return int(text)
