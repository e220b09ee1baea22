"""One WebSocket connection, from handshake to close."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from bethink.errors import BethinkError
from bethink.serve import protocol
from bethink.serve.auth import bearer
from bethink.serve.protocol import Message, Refusal, dumps
from bethink.serve.service import Service
from bethink.serve.stream_handler import StreamHandler
from bethink.serve.uvicorn_protocols import REFUSED
from bethink.trace import units

LOG = logging.getLogger("bethink.serve")
GOODBYE = 2.0  # seconds for a last message to a client that may not be reading
RECONNECT = 1  # seconds after which a client of a stopping server may come back


async def serve_socket(socket: WebSocket, service: Service) -> None:
    if service.sockets >= service.limits.sockets:
        service.metrics.rejects.labels(reason="sockets").inc()
        body = Refusal("full", "this server has no room for another connection; try again later").to_message()
        await socket.send_denial_response(JSONResponse({"error": body}, status_code=503, headers={"Retry-After": "5"}))
        return
    service.sockets += 1
    try:
        await socket.accept()
        await Connection(socket, service).run()
    finally:
        service.sockets -= 1


class Connection:
    def __init__(self, socket: WebSocket, service: Service) -> None:
        self.session = secrets.token_hex(4)
        self._socket = socket
        self._service = service
        self._limits = service.limits

    async def run(self) -> None:
        """Ends in exactly one way: done, client gone, or an error that is sent before the socket is closed."""
        ended = "failed"
        try:
            await self._converse()
            ended = "done"
            await self._socket.close(1000)
        except (WebSocketDisconnect, OSError):
            ended = self._socket.scope.get("state", {}).get(REFUSED, "gone")
            if ended != "gone":
                self._service.metrics.rejects.labels(reason=ended).inc()
        except Refusal as refusal:
            ended = refusal.code
            self._service.metrics.rejects.labels(reason=refusal.code).inc()
            await self._refuse(refusal)
        except BethinkError:
            ended = "internal"
            LOG.exception("session %s: the engine failed", self.session)
            await self._refuse(Refusal("internal", "the server failed; connect again and resume"))
        finally:
            self._service.metrics.closed.labels(reason=ended).inc()
            LOG.info("session %s ended: %s", self.session, ended)

    async def _converse(self) -> None:
        address = self._socket.client.host if self._socket.client else ""
        self._service.admit(address)
        start = await self._receive(self._limits.start, "no 'start' came in time")
        if not isinstance(start, protocol.Start):
            raise Refusal("invalid", "the first message must be 'start'")
        tokens = (bearer(self._socket.headers.get("authorization")), start.token)
        if not start.room and not any(map(self._service.access.allows_token, tokens)):  # a room has its own token
            raise Refusal("unauthorized", "this server requires a token; this one is missing or wrong")
        with self._service.stream(start, address) as handler:
            LOG.info("session %s began%s", self.session, " again" if start.resume else "")
            await self._send(
                {
                    "type": "ready",
                    "version": protocol.VERSION,
                    "session": self.session,
                    "model": handler.model.name,
                    "policy": str(handler.policy),
                    "limits": {"message": self._limits.message, "text": self._limits.text, "idle": self._limits.idle},
                    "resume": handler.resume_message(handler.resume),
                }
            )
            await self._both(handler, self._limits.idle if start.resume else self._limits.first)

    async def _both(self, handler: StreamHandler, first: float) -> None:
        """Receive and send at the same time, until everything is sent, one of them fails, or the server stops."""
        listening = asyncio.create_task(self._listen(handler, first))
        telling = asyncio.create_task(self._tell(handler))
        waiting: set[asyncio.Future[None]] = {listening, telling, handler.warned}
        try:
            while not telling.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if handler.warned in done:
                    await self._send({"type": "reconnect", "after": RECONNECT})
                # once the session is closed, listening can only fail because of that
                if listening in done and not handler.session.closed:
                    listening.result()
            telling.result()
        finally:
            for task in (listening, telling):
                task.cancel()
            await asyncio.gather(listening, telling, return_exceptions=True)

    async def _listen(self, handler: StreamHandler, patience: float) -> None:
        """Receive the next message only after the session took the last one: TCP then slows down a fast client."""
        fed = 0
        while True:
            await asyncio.sleep(0)  # other connections come first, even if many small messages have arrived
            request = await self._receive(min(patience, self._limits.idle), "no message came for too long")
            patience = self._limits.idle
            if isinstance(request, protocol.Text):
                fed += units(request.text)
                if fed > self._limits.text:
                    raise Refusal("text", f"one stream may have {self._limits.text} characters; this is more")
                await handler.session.feed(request.text)
            elif isinstance(request, protocol.Change):
                try:
                    await handler.session.change(handler.model.policy(request.policy))
                except Refusal as refusal:
                    await self._send(refusal.to_message() | {"fatal": False})
            elif isinstance(request, protocol.End):
                return await handler.session.finish()
            else:
                raise Refusal("invalid", "'start' can be sent only once")

    async def _tell(self, handler: StreamHandler) -> None:
        async for messages in handler.messages():
            await self._send(*messages)

    async def _receive(self, seconds: float, complaint: str) -> protocol.Request:
        try:
            async with asyncio.timeout(seconds):
                message = await self._socket.receive()
        except TimeoutError:
            raise Refusal("idle", f"{complaint}: {seconds:g} seconds") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        if message.get("text") is None:
            raise Refusal("invalid", "a frame is binary, but every frame must be text")
        # `bethink serve` has checked this already; other servers may not
        if len(message["text"].encode()) > self._limits.message:
            raise Refusal("size", f"a frame may have {self._limits.message} bytes; this one has more")
        return protocol.read_request(message["text"])

    async def _send(self, *messages: Message) -> None:
        try:
            async with asyncio.timeout(self._limits.slow):
                for message in messages:
                    await self._socket.send_text(dumps(message))
        except TimeoutError:
            raise Refusal("slow", f"the client read nothing for {self._limits.slow:g} seconds") from None

    async def _refuse(self, refusal: Refusal) -> None:
        """Send the error and close; do not wait for a client that does not read."""
        with contextlib.suppress(WebSocketDisconnect, OSError, RuntimeError, TimeoutError):  # a socket closed meanwhile
            async with asyncio.timeout(GOODBYE):
                await self._socket.send_text(dumps(refusal.to_message()))
                await self._socket.close(refusal.close, refusal.code)
