"""A client for `bethink serve` that does not mind losing its connection: it comes back and goes on without gap or change.

    async with Client("ws://127.0.0.1:8080") as client:
        async for step in client.stream(["te riki na", "koru ."]):
            if step.action is Action.WRITE:
                print(step.text, end="", flush=True)

`SyncClient` is the same without asyncio. Needs only the package `websockets`. The protocol is in docs/protocol.md.
"""

from bethink.client.asynchronous import Client
from bethink.client.blocking import SyncClient
from bethink.client.connection import ConnectionLost
from bethink.serve.protocol import LiveStep, Refusal

__all__ = ["Client", "ConnectionLost", "LiveStep", "Refusal", "SyncClient"]
