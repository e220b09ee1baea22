"""More than one machine: the same application as a Ray Serve deployment, `serve run bethink.serve.cluster:app`.

Each replica does what `bethink serve` does in one process: a model, an engine, its limits. A socket stays with one replica; a
client that loses its replica resumes on another one. Ray adds and removes replicas by the number of open streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, ValidationError
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bethink.errors import BethinkError, MissingExtra, UsageError
from bethink.policy import Policy, load
from bethink.serve.app import create_app
from bethink.serve.auth import Access, Marks, read_secret, read_token
from bethink.serve.limits import Limits
from bethink.serve.models import Model
from bethink.serve.service import Service

try:
    from ray import serve
except ModuleNotFoundError as error:
    raise MissingExtra("a cluster", "cluster") from error

COMFORT = 0.7  # share of a replica's streams; above it another replica is started


class Options(BaseModel):
    """The options of `serve run bethink.serve.cluster:app`, as in `model=de-en replicas=2 most=8`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "de-en"
    policy: str = ""  # as --policy of `bethink serve`; separate several by spaces
    origin: str = ""  # the address of the page, as in https://live.example.org; separate several by commas
    proxy: str = ""  # the address of a reverse proxy whose X-Forwarded-For is trusted
    replicas: PositiveInt = 1  # at least
    most: PositiveInt = 8  # at most
    streams: PositiveInt = 100  # streams per replica
    cores: PositiveFloat = 1.0  # processor cores that Ray reserves for one replica
    threads: PositiveInt = 1  # processor threads that the model uses
    batch: PositiveInt = 64  # streams in one call of the model

    def policies(self) -> list[Policy]:
        """The policies named here: the first is the default for clients, and your own ones are offered to them."""
        return [load(spec) for spec in self.policy.split()]


class Replica:
    """One server of several. If clients need a token, it is in the environment of the machine ($BETHINK_TOKEN)."""

    def __init__(self, options: Options) -> None:
        origins = [origin.strip() for origin in options.origin.split(",") if origin.strip()]
        policy = next(iter(options.policies()), None)
        model = Model.load(options.model, policy=policy, batch=options.batch, threads=options.threads)
        self._proxy = options.proxy
        access, marks = Access("127.0.0.1", origins, read_token(None)), Marks(read_secret(None))
        self._service = Service([model], Limits(streams=options.streams), access, marks, rooms=None)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called by Ray Serve once, in the event loop that will run the application."""
        made = create_app(self._service)
        return ProxyHeadersMiddleware(made, trusted_hosts=self._proxy) if self._proxy else made  # type: ignore[arg-type,return-value]

    async def check_health(self) -> None:
        """Called by Ray Serve at intervals; a replica that cannot translate is replaced."""
        if await self._service.health() == "failing":
            raise BethinkError("this replica cannot translate any more")


def app(given: Mapping[str, Any]) -> Any:
    """The deployment, for `serve run` and `serve deploy`."""
    try:
        options = Options.model_validate(dict(given))
    except ValidationError as error:
        found = error.errors()[0]
        name = ".".join(map(str, found["loc"]))
        raise UsageError(f"option '{name}' of the cluster: {found['msg'].lower()}") from None
    if options.most < options.replicas:
        raise UsageError(f"'most' is {options.most}, but must be at least 'replicas', which is {options.replicas}")
    options.policies()  # a wrong one is reported here, before any replica starts
    limits = Limits(streams=options.streams)
    made = serve.deployment(
        serve.ingress()(Replica)
    ).options(
        name="bethink",
        ray_actor_options={"num_cpus": options.cores},
        max_ongoing_requests=limits.sockets,  # more than the streams, so that a client too many is refused and does not wait
        graceful_shutdown_timeout_s=limits.drain,
        autoscaling_config={
            "min_replicas": options.replicas,
            "max_replicas": options.most,
            "target_ongoing_requests": COMFORT * options.streams,
        },
    )
    return made.bind(options)
