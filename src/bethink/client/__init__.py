"""A client for `bethink serve`. After a lost connection it reconnects and continues without a gap or a change.

    async with Client("ws://127.0.0.1:8080") as client:
        async for step in client.stream(["te riki na", "koru ."]):
            if step.action is Action.WRITE:
                print(step.text, end="", flush=True)

`SyncClient` is the same without asyncio. Both need only the package `websockets`. docs/protocol.md describes the protocol.
"""

from bethink.client.asynchronous import Client
from bethink.client.blocking import SyncClient
from bethink.client.patience import ConnectionLost
from bethink.serve.protocol import Refusal
from bethink.trace import Step

__all__ = ["Client", "ConnectionLost", "Refusal", "Step", "SyncClient"]
