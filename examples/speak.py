"""Opens a room on a server and speaks in it: every word of standard input goes there as soon as it arrives.

    bethink serve
    recogniser | bethink listen | python examples/speak.py http://127.0.0.1:8080

Prints the listeners' link on standard error, and the translation. $BETHINK_TOKEN is the server's token, if it has one.
"""

import codecs
import json
import os
import sys
import urllib.request

from bethink.client import SyncClient


def main(server: str) -> None:
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("BETHINK_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    order = urllib.request.Request(f"{server.rstrip('/')}/v1/rooms", b"{}", headers)
    with urllib.request.urlopen(order) as answer:
        room = json.load(answer)
    print("Listen at", room["link"], file=sys.stderr, flush=True)
    text = codecs.iterdecode(iter(lambda: sys.stdin.buffer.read1(4096), b""), "utf-8", "replace")
    with SyncClient(server, room=room["speaker"]) as client:
        for step in client.stream(text):
            if step.action == "WRITE":
                print(step.text, end="", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
