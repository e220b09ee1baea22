"""More than one machine: the same application as a Ray Serve deployment, `serve run bethink.serve.cluster:app`.

Each replica does what `bethink serve` does in one process: a model, an engine, its limits. A socket stays with one replica; a
client that loses its replica resumes on another one. Ray adds and removes replicas by the number of open streams.

Everybody in a room must reach the same replica, but Ray's router sends a request to any replica of an application. So rooms are a second
application with one replica, `bethink.serve.cluster:rooms` at /v1/rooms: Ray's proxy sends everything below that path there, the
speakers' sockets included.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bethink.errors import BethinkError, UsageError, needs_extra
from bethink.policy import Policy, load
from bethink.serve.app import create_app
from bethink.serve.auth import Access, Marks, read_secret, read_token
from bethink.serve.limits import Limits
from bethink.serve.models import Model
from bethink.serve.rooms import Rooms
from bethink.serve.service import Service

with needs_extra("a cluster", "cluster"):
    from ray import serve

COMFORT = 0.7  # share of a replica's streams; above it another replica is started


class Common(BaseModel):
    """What both applications can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "de-en"
    policy: str = ""  # as --policy of `bethink serve`; separate several by spaces
    origin: str = ""  # the address of the page, as in https://live.example.org; separate several by commas
    proxy: str = ""  # the address of a reverse proxy whose X-Forwarded-For is trusted
    streams: PositiveInt = 100  # streams per replica
    cores: PositiveFloat = 1.0  # processor cores that Ray reserves for one replica
    threads: PositiveInt = 1  # processor threads that the model uses
    batch: PositiveInt = 64  # streams in one call of the model
    repair: bool = False  # as --repair of `bethink serve`

    def policies(self) -> list[Policy]:
        """The policies named here: the first is the default for clients, and your own ones are offered to them."""
        return [load(spec) for spec in self.policy.split()]

    def limits(self) -> Limits:
        return Limits(streams=self.streams)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """The options that somebody wrote; raises an error that names the first wrong one, before any replica starts."""
        try:
            options = cls.model_validate(dict(given))
        except ValidationError as error:
            found = error.errors()[0]
            name = ".".join(map(str, found["loc"]))
            raise UsageError(f"option '{name}' of the cluster: {found['msg'].lower()}") from None
        options.policies()
        return options


class Options(Common):
    """The options of `serve run bethink.serve.cluster:app`, as in `model=de-en replicas=2 most=8`."""

    replicas: PositiveInt = 1  # at least
    most: PositiveInt = 8  # at most


class RoomOptions(Common):
    """The options of `bethink.serve.cluster:rooms`."""

    # where rooms are kept, as --rooms of `bethink serve`; the replica must find it wherever it is started
    folder: str = ""
    listeners: PositiveInt = 2000  # of all rooms together

    def limits(self) -> Limits:
        return Limits(streams=self.streams, listeners=self.listeners)


class Replica:
    """One server of several. If clients need a token, it is in the environment of the machine ($BETHINK_TOKEN)."""

    def __init__(self, options: Common) -> None:
        origins = [origin.strip() for origin in options.origin.split(",") if origin.strip()]
        policy = next(iter(options.policies()), None)
        settings = {"batch": options.batch, "threads": options.threads, "repair": options.repair}
        model = Model.load(options.model, policy=policy, **settings)
        self._proxy = options.proxy
        access, marks = Access("127.0.0.1", origins, read_token(None)), Marks(read_secret(None))
        limits, rooms = options.limits(), None
        if isinstance(options, RoomOptions):
            rooms = Rooms(limits, Path(options.folder) if options.folder else None)
        self._service = Service([model], limits, access, marks, rooms)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called by Ray Serve once, in the event loop that will run the application."""
        made: ASGIApp = create_app(self._service)
        if self._service.rooms is not None:
            made = _whole_paths(made)
        return ProxyHeadersMiddleware(made, trusted_hosts=self._proxy) if self._proxy else made  # type: ignore[arg-type,return-value]

    async def check_health(self) -> None:
        """Called by Ray Serve at intervals; a replica that cannot translate is replaced."""
        if await self._service.health() == "failing":
            raise BethinkError("this replica cannot translate any more")


def app(given: Mapping[str, Any]) -> Any:
    """The deployment, for `serve run` and `serve deploy`."""
    options = Options.read(given)
    if options.most < options.replicas:
        raise UsageError(f"'most' is {options.most}, but must be at least 'replicas', which is {options.replicas}")
    scaling = {
        "min_replicas": options.replicas,
        "max_replicas": options.most,
        "target_ongoing_requests": COMFORT * options.streams,
    }
    return _deployment("bethink", options, options.limits().sockets, autoscaling_config=scaling)


def rooms(given: Mapping[str, Any]) -> Any:
    """The deployment of all rooms: one replica, at the route prefix /v1/rooms."""
    options = RoomOptions.read(given)
    return _deployment("rooms", options, options.limits().sockets + options.listeners, num_replicas=1)


def _deployment(name: str, options: Common, requests: int, **scaling: Any) -> Any:
    """`requests`: more than are let in, so that a client too many is refused and does not wait."""
    made = serve.deployment(serve.ingress()(Replica)).options(
        name=name,
        ray_actor_options={"num_cpus": options.cores},
        max_ongoing_requests=requests,
        graceful_shutdown_timeout_s=options.limits().drain,
        **scaling,
    )
    return made.bind(options)


def _whole_paths(application: ASGIApp) -> ASGIApp:
    """Below its route prefix an application still has the paths of the whole site: Ray's prefix is no part of them."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            prefix = scope.get("root_path", "")
            path = scope["path"] if scope["path"].startswith(prefix) else prefix + scope["path"]
            scope = dict(scope) | {"root_path": "", "path": path, "raw_path": path.encode()}
        await application(scope, receive, send)

    return called
