"""A lost connection: the reader's text has neither gap nor change, and sees that something happened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bethink import Translator
from tests.browser.conftest import Server, Visitor, other

FIRST = "te riki nakoru , ne ruru wa homuran haturu ."
SECOND = "temo himaki muru te kumu tohiru ka ne raru wa hikaru ."
REFUSED = r"WebSocket connection to .* failed"


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of these tests' own, to be killed and started again."""
    made = Server(tmp_path_factory.mktemp("mortal") / "log.txt")
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def expected() -> str:
    translator = Translator("toy", threads=1)
    return f"{translator.translate(FIRST)}\n{translator.translate(SECOND)}"


def second(visitor: Visitor, words: int) -> None:
    """Wait until so much of the second sentence is translated."""
    visitor.page.wait_for_function(
        "n => document.querySelectorAll('#rows .row:nth-child(2) .target .word').length === n", arg=words
    )


def test_killed_in_mid_sentence_and_restarted_the_text_goes_on_unchanged(
    visit: Any, mortal: Server, expected: str
) -> None:
    visitor = visit(mortal)
    visitor.forgiven = REFUSED
    box = visitor.page.locator("#composer")
    words = SECOND.split()
    box.press_sequentially(f"{FIRST} {' '.join(words[:6])} ")
    visitor.finished(1)
    second(visitor, words=4)
    before = visitor.translation()
    mortal.kill()
    visitor.page.locator('#status[data-state="waiting"]').wait_for()
    box.press_sequentially(" ".join(words[6:9]) + " ")  # the speaker does not wait
    visitor.page.locator(".ahead-row").get_by_text(" ".join(words[6:9]), exact=True).wait_for()
    assert visitor.translation() == before
    mortal.start()
    visitor.ready()
    assert "nothing lost" in visitor.page.locator("#status").inner_text()
    box.press_sequentially(" ".join(words[9:]) + " ")
    visitor.finished(2)
    assert visitor.translation() == expected
    assert expected.startswith(before)
    assert visitor.source() == f"{FIRST} {SECOND}"
    assert visitor.page.locator(".ahead-row").count() == 0


def test_a_changed_policy_survives_the_restart(visit: Any, mortal: Server) -> None:
    visitor = visit(mortal)
    visitor.forgiven = REFUSED
    box = visitor.page.locator("#composer")
    box.press_sequentially("te riki ")
    visitor.page.locator("#policy").select_option("offline")
    mortal.kill()
    visitor.page.locator('#status[data-state="waiting"]').wait_for()
    mortal.start()
    visitor.ready()
    box.press_sequentially("nakoru . temo himaki muru ")
    visitor.finished(1)
    visitor.page.wait_for_function(
        "() => document.querySelectorAll('#rows .row:last-child .source .word').length === 3"
    )
    assert visitor.page.locator("#rows .row:last-child .target .word").count() == 0  # it hears the sentence to its end
    visitor.page.locator("#finish").click()
    visitor.finished(2)
    assert visitor.translation().split("\n")[1] == Translator("toy", threads=1).translate("temo himaki muru", "offline")


def test_a_server_that_stops_politely_is_waited_for(visit: Any, mortal: Server, expected: str) -> None:
    visitor = visit(mortal)
    visitor.forgiven = REFUSED
    box = visitor.page.locator("#composer")
    box.press_sequentially(f"{FIRST} ")
    visitor.finished(1)
    mortal.ask_to_stop()
    visitor.page.locator('#status[data-state="waiting"]').wait_for()
    mortal.start()
    visitor.ready()
    box.press_sequentially(f"{SECOND} ")
    visitor.finished(2)
    assert visitor.translation() == expected


def test_a_changed_model_begins_the_open_sentence_anew_and_says_so(
    visit: Any, mortal: Server, expected: str, tmp_path: Path
) -> None:
    visitor = visit(mortal)
    visitor.forgiven = REFUSED
    box = visitor.page.locator("#composer")
    words = SECOND.split()
    box.fill(f"{FIRST} {' '.join(words[:6])} ")
    second(visitor, words=4)
    before = visitor.translation()
    mortal.kill()
    mortal.models = (str(other(tmp_path / "toy", "toy")),)
    mortal.start()
    visitor.page.get_by_text("translated again").wait_for()
    visitor.ready()
    box.fill(f"{' '.join(words[6:])} ")
    visitor.finished(2)  # the first, and the second from its beginning; between them stands what was left unfinished
    assert visitor.translation() == f"{before}\n{expected.splitlines()[1]}"
    mortal.models = ("toy",)


def test_a_full_server_is_waited_for(visit: Any, stranger: Any, serving: Callable[..., Server]) -> None:
    small = serving("--max-streams", "1")
    first = visit(small)
    stranger.goto(small.url)
    stranger.locator('#status[data-state="waiting"]').wait_for()
    assert stranger.locator("#rows .row").count() == 0
    first.page.close()
    stranger.locator('#status[data-state="ready"]').wait_for()
    stranger.locator("#composer").fill("te riki nakoru .\n")
    stranger.locator("#rows .row:not(.live) .target").get_by_text("foloma").wait_for()
    assert stranger.locator("#rows .row").count() == 1, "who waited is heard"


def test_silence_is_no_trouble(stranger: Any, serving: Callable[..., Server]) -> None:
    resting = stranger.locator('#status[data-state="resting"]')
    stranger.goto(serving("--max-idle", "2").url)
    resting.wait_for()
    stranger.locator("#composer").fill("te riki ")
    stranger.wait_for_function("() => document.querySelectorAll('#rows .source .word').length === 2")
    resting.wait_for()
    stranger.locator("#composer").fill("nakoru .\n")
    stranger.locator("#rows .row:not(.live) .target").get_by_text("foloma").wait_for()
    assert stranger.locator("#rows .row").count() == 1


def test_what_is_typed_before_the_page_listens_is_heard(stranger: Any, serving: Callable[..., Server]) -> None:
    early = "document.readyState === 'interactive' && (document.getElementById('composer').value = 'te riki ')"
    stranger.add_init_script(f"document.addEventListener('readystatechange', () => {early})")  # before any module runs
    stranger.goto(serving().url)
    stranger.wait_for_function("() => document.querySelectorAll('#rows .source .word').length === 2")
    assert stranger.locator("#composer").input_value() == ""


def test_what_crosses_with_hanging_up_for_silence_is_heard(stranger: Any, serving: Callable[..., Server]) -> None:
    lost: list[str] = []

    def between(page: Any) -> None:
        server = page.connect_to_server()

        def said(message: str) -> None:
            if lost or json.loads(message)["type"] != "text":
                server.send(message)
                return
            lost.append(message)
            page.close(code=4408, reason="idle")  # first: the other close would tell the page something else
            server.close()

        page.on_message(said)

    stranger.route_web_socket(re.compile("/v1/stream"), between)
    stranger.goto(serving().url)
    stranger.locator("#composer").fill("te riki ")
    stranger.wait_for_function("() => document.querySelectorAll('#rows .source .word').length === 2")
    assert len(lost) == 1
