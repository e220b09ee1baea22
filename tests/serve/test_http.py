"""The HTTP side: whole texts, models, health, metrics, the page, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from bethink import Translator, toy
from bethink.aio import AsyncTranslator
from bethink.serve.app import PAGE, create_app
from bethink.serve.auth import Access
from bethink.serve.http import EventStream, _whole
from bethink.serve.models import Model
from bethink.serve.protocol import Start
from bethink.serve.run import listen
from bethink.serve.service import Service
from tests.serve.servers import PATIENCE, Running, play, running, until
from tests.serve.talk import core, shown, steps, whole

SPEECH = " ".join(pair.source for pair in toy.sentences(3, seed=41))


POST = (
    b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 999\r\nAccept: %s\r\n\r\n"
)


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(made: Running, method: str, path: str, body: object = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=PATIENCE)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, {"Content-Type": "application/json"} | given)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_a_whole_text(server: Running, translator: Translator) -> None:
    answer = ask(server, "POST", "/v1/translate", {"text": SPEECH, "policy": "wait-k:3"})
    assert answer.status == 200
    assert answer.json["text"] == translator.translate(SPEECH, "wait-k:3")
    assert answer.json["policy"] == "wait-k:k=3,rate=1.0"
    assert [sentence["source"] for sentence in answer.json["sentences"]] == [
        p.source for p in toy.sentences(3, seed=41)
    ]
    for sentence in answer.json["sentences"]:
        assert len(sentence["delays"]) == len(sentence["text"].split())
        assert sentence["delays"] == sorted(sentence["delays"])
    assert set(answer.json["latency"]) == {"AL", "AP", "DAL", "CW"}


def test_a_whole_text_as_events(server: Running, translator: Translator) -> None:
    answer = ask(server, "POST", "/v1/translate", {"text": SPEECH}, Accept="text/event-stream")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [
        dict(line.split(": ", 1) for line in block.split("\n")) for block in answer.body.decode().strip().split("\n\n")
    ]
    messages = [json.loads(event["data"]) for event in events]
    assert [event["event"] for event in events] == [message["type"] for message in messages]
    assert [core(step) for step in steps(messages)] == [core(step) for step in translator.stream([SPEECH])]
    assert [event["id"] for event in events if "id" in event] == [str(step["n"]) for step in steps(messages)]
    assert messages[-1]["type"] == "final"


@pytest.mark.parametrize("text", ["", " \n ", "🙂", "שלום עולם", "a" * 5000, "\ud800"])
def test_any_text_has_an_answer(server: Running, text: str) -> None:
    assert ask(server, "POST", "/v1/translate", {"text": text}).status == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid"),
        (b"{", 422, "invalid"),
        (b"\xff", 400, "invalid"),
        ({}, 422, "invalid"),
        ({"text": 5}, 422, "invalid"),
        ({"text": "te", "colour": "red"}, 422, "invalid"),
        ({"text": "te", "model": "../../etc"}, 404, "model"),
        ({"text": "te", "policy": "waitk"}, 422, "policy"),
        ({"text": "x" * 300_000}, 413, "text"),
    ],
)
def test_refusals(server: Running, body: object, status: int, code: str) -> None:
    for accept in ("application/json", "text/event-stream"):
        answer = ask(server, "POST", "/v1/translate", body, Accept=accept)
        assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert answer.json["error"]["message"]


def test_a_body_that_does_not_say_how_long_it_is(server: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request(
        "POST", "/v1/translate", iter([b"x" * 60_000] * 6), {"Content-Type": "application/json"}, encode_chunked=True
    )
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_never_ends(model: Model) -> None:
    with running(model, start=1.0) as made, socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE) as raw:
        raw.sendall(POST % b"application/json" + b'{"text": "te')
        assert raw.recv(100).startswith(b"HTTP/1.1 408")


def test_a_body_that_comes_little_by_little(model: Model) -> None:
    answer = b""
    with running(model, start=1.0) as made, socket.create_connection(("127.0.0.1", made.port), timeout=0.05) as raw:
        raw.sendall(POST % b"application/json" + b'{"text": "')
        with contextlib.suppress(ConnectionError):
            for _ in range(900):  # of the 999 that were promised
                raw.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    answer += raw.recv(1000)
            pytest.fail(f"the connection is still there after {answer!r}")
    assert answer.startswith(b"HTTP/1.1 408")


def test_events_that_nobody_takes_are_stopped(model: Model) -> None:
    body = json.dumps({"text": f"{SPEECH} " * 500}).encode()
    with running(model, slow=0.3) as made, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", made.port))
        raw.sendall(POST.replace(b"999", str(len(body)).encode()) % b"text/event-stream" + body)
        until(lambda: made.metric("bethink_streams_opened_total", resumed="false"))
        until(lambda: not made.service.streams)
        assert made.metric("bethink_streams_closed_total", reason="gone") == 1


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_under_any_version_of_asgi_a_slow_client_is_no_error(version: str) -> None:
    closed = asyncio.Event()

    async def events() -> AsyncGenerator[str]:
        try:
            yield "data: 1\n\n"
        finally:
            closed.set()

    async def never(*_: object) -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    asyncio.run(EventStream(events(), 0.05)({"type": "http", "asgi": {"spec_version": version}}, never, send))
    assert closed.is_set()


def test_a_model_that_fails_ends_the_events_with_an_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no room")

    with running(model) as made:
        monkeypatch.setattr(model.translator.backend, "step", broken)
        answer = ask(made, "POST", "/v1/translate", {"text": SPEECH}, Accept="text/event-stream")
        last = answer.body.decode().strip().split("\n\n")[-1].split("\n")
        assert last[0] == "event: error"
        assert json.loads(last[1].removeprefix("data: "))["code"] == "internal"
        whole_text = ask(made, "POST", "/v1/translate", {"text": SPEECH})
        assert (whole_text.status, whole_text.json["error"]["code"]) == (500, "internal")
        assert made.metric("bethink_streams_closed_total", reason="internal") == 2


def test_steps_of_sentences_that_are_done_are_not_kept(model: Model) -> None:
    mine = 300  # sentences, which have about 20 steps each

    async def here() -> bool:
        return False

    async def scene() -> tuple[int, int]:
        service, most = Service([Model("toy", model.translator, AsyncTranslator(model.translator))]), 0
        async with service.running():
            whole = asyncio.create_task(_whole(service, Start(), "te riki nakoru . " * mine, here))
            while not whole.done():
                most = max(most, *(len(handler._steps) for handler in service.streams), 0)
                await asyncio.sleep(0)
            return most, len((await whole)["sentences"])

    most, sentences = play(scene)
    assert sentences == mine
    assert 0 < most < mine


def test_models(server: Running) -> None:
    (model,) = ask(server, "GET", "/v1/models").json["models"]
    assert model["name"] == "toy"
    assert model["explains"] is True
    assert "pe" in [policy["name"] for policy in model["policies"]]
    assert set(model["about"]) <= {"description", "recipe", "source", "target", "toy"}


def test_health_is_a_real_translation(model: Model) -> None:
    with running(model) as made:
        assert ask(made, "GET", "/health").json == {"status": "ready", "streams": 0}
        rounds = made.service.counters()["toy"].rounds
        assert rounds > 0
        made.service.draining = True
        answer = ask(made, "GET", "/health")
        assert (answer.status, answer.json["status"]) == (503, "draining")
        assert ask(made, "POST", "/v1/translate", {"text": "te"}).status == 503


def test_a_request_in_flight_when_the_server_stops(model: Model) -> None:
    """It is told so after the sentence at hand; whoever asked can ask elsewhere."""
    answers: list[Answer] = []
    with running(model) as made:
        order = {"text": f"{SPEECH} " * 200}
        asking = threading.Thread(target=lambda: answers.append(ask(made, "POST", "/v1/translate", order)))
        asking.start()
        until(lambda: made.metric("bethink_engine_written_total", model="toy") >= 10)
        made.drain()
        asking.join(PATIENCE)
    assert [(answer.status, answer.json["error"]["code"]) for answer in answers] == [(503, "draining")]


def test_a_server_that_cannot_translate_is_not_healthy(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(model) as made:
        monkeypatch.setattr("bethink.serve.service.PROBE_SECONDS", 0.0)
        answer = ask(made, "GET", "/health")
        assert (answer.status, answer.json["status"]) == (503, "failing")


def test_metrics(model: Model) -> None:
    with running(model) as made:
        got = play(lambda: whole(made.url, {"type": "text", "text": SPEECH}))
        page = ask(made, "GET", "/metrics").body.decode()
        assert f'bethink_steps_total{{action="WRITE"}} {sum(s["action"] == "WRITE" for s in steps(got))}.0' in page
        assert 'bethink_streams_closed_total{reason="done"} 1.0' in page
        assert 'bethink_streams_opened_total{resumed="false"} 1.0' in page
        assert 'bethink_engine_written_total{model="toy"}' in page
        assert "bethink_streams 0.0" in page
        for name in (
            "bethink_lag_seconds_bucket",
            "bethink_engine_batch",
            "bethink_engine_ready",
            "process_resident_memory_bytes",
        ):
            assert name in page
        shows = sum(bool(step["text"]) for step in steps(got) if step["action"] == "WRITE")
        assert made.metric("bethink_lag_seconds_count") == shows
        assert shown(got)


def test_the_http_side_is_described(server: Running) -> None:
    paths = ask(server, "GET", "/openapi.json").json["paths"]
    rooms = {
        f"/v1/rooms{rest}" for rest in ("", *(f"/{{name}}{x}" for x in ("", "/events", "/captions.{kind}", "/qr.svg")))
    }
    assert set(paths) == rooms | {"/v1/translate", "/v1/models", "/health", "/metrics"}
    assert ask(server, "GET", "/docs").status == 404  # FastAPI's own loads scripts from other servers


def test_every_answer_is_guarded(server: Running) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/nothing"),
        ("POST", "/v1/translate"),
    ):
        headers = ask(server, method, path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Server" not in headers


def test_names_and_methods_that_are_not_there(server: Running) -> None:
    assert ask(server, "GET", "/nothing").json["error"]["code"] == "not_found"
    assert ask(server, "GET", "/v1/translate").status == 405
    assert ask(server, "DELETE", "/v1/models").json["error"]["code"] == "method"
    for path, allowed in (("/v1/translate", "POST"), ("/v1/models", "GET, HEAD"), ("/v1/rooms/spring", "DELETE, GET")):
        refused = ask(server, "PUT", path)
        assert (refused.status, ", ".join(sorted(refused.headers["Allow"].split(", ")))) == (405, allowed)
    assert ask(server, "GET", "/v1/models", Host="rebound.example").status == 403
    assert ask(server, "POST", "/v1/translate", {"text": "te"}, Origin="http://evil.example").status == 403
    assert ask(server, "POST", "/v1/translate", {"text": "te"}, Origin=server.http).status == 200


def test_tokens_guard_all_but_the_page_and_health(model: Model) -> None:
    with running(model, access=Access("127.0.0.1", token="correct-horse")) as made:
        for method, path in (("POST", "/v1/translate"), ("GET", "/v1/models"), ("GET", "/metrics")):
            answer = ask(made, method, path, {"text": "te"} if method == "POST" else None)
            assert (answer.status, answer.json["error"]["code"]) == (401, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            good = ask(
                made, method, path, {"text": "te"} if method == "POST" else None, Authorization="Bearer correct-horse"
            )
            assert good.status == 200
        assert ask(made, "GET", "/health").status == 200
        assert ask(made, "GET", "/").status == 200


def test_load_balancers_and_prometheus_may_use_any_name(server: Running) -> None:
    for path in ("/health", "/metrics"):
        assert ask(server, "GET", path, Host="10.0.0.5:8080").status == 200
        head = ask(server, "HEAD", path, Host="10.0.0.5:8080")
        assert (head.status, head.body) == (200, b"")
    assert ask(server, "HEAD", "/v1/models").status == 200
    assert ask(server, "POST", "/health").headers["Allow"] == "GET, HEAD"


def test_tokens_cannot_be_guessed_at_will(model: Model) -> None:
    with running(model, access=Access("127.0.0.1", token="correct-horse"), rate=0.001, burst=3) as made:
        guesses = [ask(made, "GET", "/metrics", Authorization=f"Bearer {n}").status for n in range(5)]
        assert guesses == [401, 401, 401, 429, 429]


def test_pages_of_named_origins_may_post(model: Model) -> None:
    origin = "https://live.example.org"
    access = Access("127.0.0.1", [origin], token="correct-horse")
    asking = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization,content-type"}
    with running(model, access=access) as made:
        may = ask(made, "OPTIONS", "/v1/translate", Origin=origin, **asking)
        assert (may.status, may.headers["Access-Control-Allow-Origin"]) == (200, origin)
        got = ask(made, "POST", "/v1/translate", {"text": "te"}, Origin=origin, Authorization="Bearer correct-horse")
        assert (got.status, got.headers["Access-Control-Allow-Origin"]) == (200, origin)
        wrong = ask(made, "POST", "/v1/translate", {"text": "te"}, Origin=origin)
        assert (wrong.status, wrong.headers["Access-Control-Allow-Origin"]) == (401, origin)
        other = ask(made, "OPTIONS", "/v1/translate", Origin="https://evil.example", **asking)
        assert (other.status, other.headers["Access-Control-Allow-Origin"]) == (400, None)


def test_a_proxy_with_a_path_prefix_and_https(model: Model) -> None:
    """The proxy takes the prefix away and says that it speaks HTTPS; requests and sockets arrive as without it."""
    access = Access("127.0.0.1", ["https://live.example.org"])
    forwarded = {"Host": "live.example.org", "X_Forwarded_Proto": "https", "X_Forwarded_For": "192.0.2.7"}
    with running(model, access=access, prefix="/live") as made:
        for path in ("/", "/app.js", "/health", "/v1/models", "/metrics"):
            assert ask(made, "GET", path, **forwarded).status == 200
        assert ask(made, "GET", "/v1/translate", **forwarded).status == 405
        assert ask(made, "POST", "/v1/translate", {"text": "te"}, **forwarded).status == 200
        assert ask(made, "GET", "/openapi.json", **forwarded).json["servers"] == [{"url": "/live"}]
        assert play(lambda: whole(made.url))[-1]["type"] == "final"
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="/', page)  # the page asks relative to itself


def test_all_addresses_include_those_of_ipv4() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listen("::", 0) as listening:
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), timeout=PATIENCE).close()


def test_requests_are_counted_by_address(model: Model) -> None:
    with running(model, rate=0.001, burst=2) as made:
        assert [ask(made, "GET", "/v1/models").status for _ in range(3)] == [200, 200, 429]
        assert ask(made, "GET", "/health").status == 200


def test_the_page(server: Running) -> None:
    answer = ask(server, "GET", "/")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Cache-Control"] == "no-cache"
    again = ask(server, "GET", "/", If_None_Match=answer.headers["ETag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "/..\\app.py", "//etc/passwd", "/%00", "/page/../../app.py"],
)
def test_no_path_leaves_the_page(server: Running, path: str) -> None:
    answer = ask(server, "GET", path)
    assert answer.status in (400, 404)
    assert b"create_app" not in answer.body


def test_files_have_the_right_types(model: Model, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    for name in ("index.html", "app.js", "style.css", "icon.svg", "font.woff2"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    client = TestClient(create_app(Service([model]), tmp_path), base_url="http://localhost")
    kinds = {
        name: client.get(f"/{name}").headers["content-type"].partition(";")[0]
        for name in ("", "app.js", "style.css", "icon.svg", "font.woff2")
    }
    assert kinds == {
        "": "text/html",
        "app.js": "text/javascript",
        "style.css": "text/css",
        "icon.svg": "image/svg+xml",
        "font.woff2": "font/woff2",
    }
