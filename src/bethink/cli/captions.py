"""`bethink captions`: carry the words of a room to where captions are watched."""

from __future__ import annotations

import argparse
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from bethink.cli.common import Verbs, count, verb

if TYPE_CHECKING:
    from bethink.client.captions import Sink
    from bethink.client.room import RoomReader


def add(verbs: Verbs) -> None:
    made = verb(
        verbs,
        "captions",
        "send the words of a room to Zoom, YouTube or a caption file",
        "Follows a room of a bethink server, as a listener does, and carries its words to one or more places. A lost connection, on either "
        "side, is opened again, and no word is lost or sent twice. It ends when the speaker ends the text, when the room is closed, or "
        "with Ctrl-C. Files get the text from the beginning; Zoom and YouTube get what comes from now on.",
        (
            "--room 'https://live.example.org/listen.html#spring.Zw0x' --to talk.vtt",
            "--room LINK --to 'zoom:https://wmcc.zoom.us/closedcaption?id=…' --to talk.srt",
            "--room LINK --to 'youtube:http://upload.youtube.com/closedcaption?cid=…' --state state",
        ),
        run,
    )
    made.add_argument("--room", required=True, metavar="LINK", help="the listeners' link of the room")
    made.add_argument(
        "--to",
        action="append",
        required=True,
        metavar="PLACE",
        help="FILE.vtt, FILE.srt, zoom:URL or youtube:URL, with the caption address that the meeting or the stream shows; may be repeated",
    )
    made.add_argument(
        "--model", default="", metavar="NAME", help="which of the room's models (default: the room's first)"
    )
    made.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        help="note here what went to Zoom or YouTube, so that this command, started again, goes on with the next word",
    )
    made.add_argument("--width", type=count, default=42, metavar="N", help="characters in a line (default: 42)")
    made.add_argument("--lines", type=count, default=2, metavar="N", help="lines in a caption of a file (default: 2)")
    made.add_argument(
        "--no-doubt",
        action="store_true",
        help="do not mark words in FILE.vtt that were written early and may be wrong (the class `doubt`, shown if a page styles it)",
    )


def run(args: argparse.Namespace) -> int:
    from bethink.client.captions import follow, sink_for
    from bethink.client.room import RoomReader
    from bethink.text.captions import Layout

    logging.basicConfig(format="bethink: %(message)s")
    layout, stop, errors = Layout(width=args.width, lines=args.lines), threading.Event(), list[Exception]()
    readers = [
        (RoomReader(args.room, model=args.model), sink_for(place, layout, args.state, doubt=not args.no_doubt))
        for place in args.to
    ]

    def carry(reader: RoomReader, sink: Sink) -> None:
        try:
            follow(reader, sink, stop)
        except Exception as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=carry, args=each) for each in readers]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        stop.set()  # each place still gets its last line
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return 0
