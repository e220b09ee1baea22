"""Two replicas under Ray Serve: the same words, sockets that stay where they are, and a replica that dies in mid-sentence."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bethink import toy
from bethink.client import Client
from bethink.errors import MissingExtra, UsageError
from bethink.policy import Action
from bethink.translator import Translator
from tests.ports import free_port
from tests.serve.listen import Listener, call
from tests.serve.servers import CLONE, play
from tests.serve.talk import start, talk, text

INSTALLED = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not INSTALLED, reason="Ray is not installed: pip install 'bethink[cluster]'")
SPEAKERS = 8
POLICY = "wait-k:k=2,rate=1.0"
STARTED = "process_start_time_seconds "
QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
KILL = """
import ray
ray.init("auto", namespace="serve", log_to_driver=False)
actors = sorted(one["name"] for one in ray.util.list_named_actors(all_namespaces=True))
replicas = [name for name in actors if name.startswith("SERVE_REPLICA") and "#{deployment}#" in name]
assert len(replicas) == {count}, actors
ray.kill(ray.get_actor(replicas[0], namespace="serve"))
"""


class Cluster:
    """`serve run` with a configuration file, as an operator has it, in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        options = {"model": str(CLONE / "models" / "toy"), "replicas": 2, "most": 2, "streams": 20, "cores": 0.1}
        options["policy"] = f"{POLICY} punctuation_policy:Punctuation"
        deployed = {"name": "live", "route_prefix": "/", "import_path": "bethink.serve.cluster:app", "args": options}
        shared = {name: options[name] for name in ("model", "policy", "streams", "cores")}
        rooms = {"name": "rooms", "route_prefix": "/v1/rooms", "import_path": "bethink.serve.cluster:rooms"}
        rooms |= {"args": shared | {"folder": str(folder / "rooms")}}
        config = {"http_options": {"host": "127.0.0.1", "port": self.port}, "applications": [deployed, rooms]}
        (folder / "cluster.yaml").write_text(json.dumps(config), encoding="utf-8")  # every JSON text is YAML
        self._log = folder / "log.txt"
        self._environment = os.environ | QUIET | {"PYTHONPATH": f"{CLONE / 'src'}:{CLONE / 'examples'}"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).parent / "serve", "run", folder / "cluster.yaml"],
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self) -> None:
        """Until both replicas answer, and the one with the rooms."""
        answered: set[str] = set()
        for _ in range(240):
            answered |= self._who()
            if len(answered) == 2 and self.has_rooms():
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.5)
        raise AssertionError(f"the cluster did not get ready: {self._log.read_text(errors='replace')[-3000:]}")

    def has_rooms(self) -> bool:
        with pytest.raises(urllib.error.HTTPError) as refused:
            call("GET", f"{self.http}/v1/rooms/nowhere")
        told = refused.value.read()
        return b"no room has this name and key" in told

    def kill_a_replica(self, deployment: str = "bethink", count: int = 2) -> None:
        script = KILL.format(deployment=deployment, count=count)
        subprocess.run(
            [sys.executable, "-c", script], env=self._environment, check=True, capture_output=True, timeout=60
        )

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def _who(self) -> set[str]:
        """The replica that is asked now, known by when it was started."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return {line for line in answer.read().decode().splitlines() if line.startswith(STARTED)}
        except (urllib.error.URLError, OSError):
            return set()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@needs_ray
def test_a_replica_dies_in_mid_sentence(cluster: Cluster, translator: Translator) -> None:
    """Those who were with it go on with the other; the rest feel nothing; everybody gets the words they get alone."""
    speeches = [" ".join(pair.source for pair in toy.sentences(8, seed=seed)) for seed in range(SPEAKERS)]

    async def speak(speech: str, died: asyncio.Event, speaking: asyncio.Barrier) -> tuple[str, int]:
        half = len(speech) // 2
        async with Client(cluster.url) as client:
            await client.feed(speech[:half])
            steps = [await anext(client)]
            await speaking.wait()
            await died.wait()
            await client.feed(speech[half:])
            await client.finish()
            steps += [step async for step in client]
            assert [step.n for step in steps] == list(range(len(steps)))  # neither gap nor repetition
            return "".join(step.text for step in steps if step.action is Action.WRITE), client.reconnects

    async def scene() -> list[tuple[str, int]]:
        died, speaking = asyncio.Event(), asyncio.Barrier(SPEAKERS + 1)
        speakers = [asyncio.create_task(speak(speech, died, speaking)) for speech in speeches]
        await speaking.wait()
        await asyncio.to_thread(cluster.kill_a_replica)
        died.set()
        return await asyncio.gather(*speakers)

    told = play(scene, 120)
    assert [words for words, _ in told] == [translator.translate(speech, POLICY) for speech in speeches]
    assert 0 < sum(reconnects > 0 for _, reconnects in told) < SPEAKERS


@needs_ray
def test_everybody_in_a_room_reaches_the_same_replica(cluster: Cluster, translator: Translator) -> None:
    """The speaker and listeners who come early, late, and again after the replica with the rooms was killed."""
    speech = " ".join(pair.source for pair in toy.sentences(8, seed=3))
    half = len(speech) // 2
    keys = call("POST", f"{cluster.http}/v1/rooms", {"room": "spring"})
    assert keys["link"] == f"{cluster.http}/listen.html#{keys['listener']}"

    async def scene() -> tuple[str, int, list[Listener]]:
        listeners = [Listener(cluster.port, keys["listener"]) for _ in range(10)]
        tasks = [asyncio.create_task(listener.run()) for listener in listeners]
        async with Client(cluster.url, room=keys["speaker"]) as client:
            await client.feed(speech[:half])
            steps = [await anext(client)]
            while not all(listener.events for listener in listeners):
                await asyncio.sleep(0.05)
            await asyncio.to_thread(cluster.kill_a_replica, "rooms", 1)
            await client.feed(speech[half:])
            await client.finish()
            steps += [step async for step in client]
        await asyncio.gather(*tasks)
        late = Listener(cluster.port, keys["listener"])
        await late.run()
        said = "".join(step.text for step in steps if step.action is Action.WRITE)
        return said, client.reconnects, [*listeners, late]

    said, reconnects, listeners = play(scene, 120)
    assert said == translator.translate(speech, POLICY)
    assert reconnects == 1
    assert {listener.text for listener in listeners} == {said}
    name, _, token = keys["listener"].partition(".")
    captions = call("GET", f"{cluster.http}/v1/rooms/{name}/captions.vtt?token={token}").decode()
    assert captions.startswith("WEBVTT")
    assert call("DELETE", f"{cluster.http}/v1/rooms/{name}?token={keys['speaker'].partition('.')[2]}") == b""


@needs_ray
def test_a_room_has_its_own_address(cluster: Cluster) -> None:
    async def scene() -> str:
        async with talk(cluster.url) as client:
            await client.say(start(room="spring.x"))
            return str((await client.hear())["message"])

    assert "in a cluster they are an application of their own, at /v1/rooms" in play(scene)


@needs_ray
def test_the_limits_hold_behind_rays_proxy(cluster: Cluster) -> None:
    async def scene() -> tuple[str, int | None]:
        async with talk(cluster.url) as client:
            await client.say(start(), text("x" * 70_000))
            *_, last = await client.rest()
            return last["code"], client.code

    assert play(scene) == ("size", 1009)


@needs_ray
def test_the_policies_named_in_the_options_are_offered(cluster: Cluster) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.port}/v1/models", timeout=5) as answer:
        (model,) = json.load(answer)["models"]
    assert model["policy"] == POLICY
    assert "punctuation_policy:Punctuation" in [policy["name"] for policy in model["policies"]]


@needs_ray
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, as it is imported
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"modell": "toy"}, "'modell'"),
        ({"replicas": "none"}, "'replicas'"),
        ({"replicas": 3, "most": 2}, "'most' is 2"),
        ({"policy": "wait-k:3 waitk"}, "no policy named 'waitk'"),
        ({"folder": "rooms"}, "'folder'"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], complaint: str) -> None:
    from bethink.serve import cluster

    with pytest.raises(UsageError, match=complaint):
        cluster.app(options)
    if "folder" not in options and "most" not in options:
        with pytest.raises(UsageError, match=complaint):
            cluster.rooms(options)


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "bethink.serve.cluster", raising=False)
    with pytest.raises(MissingExtra, match="needs the 'cluster' extra"):
        importlib.import_module("bethink.serve.cluster")
