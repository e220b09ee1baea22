"""Rooms in a browser: the speaker opens one, listeners follow on a phone, OBS shows captions, and a restart changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PATIENCE, ROOT, Server, other
from tests.browser.test_access import violations

FIRST = "te riki nakoru , ne ruru wa homuran haturu ."
SECOND = "temo himaki muru te kumu tohiru ka ne raru wa hikaru ."
PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}
PAGE = ROOT / "src" / "bethink" / "serve" / "page"


@pytest.fixture
def listen(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the listeners' page; afterwards it must have complained about nothing."""
    contexts, complaints = [], []

    def opened(link: str, **settings: Any) -> Any:
        context = browser.new_context(**(PHONE | {"reduced_motion": "reduce"} | settings))
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(link)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for text in complaints if not re.search("Failed to load resource|ERR_", text)] == []


def open_room(visitor: Any, name: str = "") -> str:
    """As a speaker does; returns the listeners' link."""
    visitor.page.locator("#room").click()
    visitor.page.locator("#room-name").fill(name)
    visitor.page.locator("#room-open").click()
    visitor.page.locator("#room-link:visible").wait_for()
    link: str = visitor.page.locator("#room-link").get_attribute("href")
    return link


def say(visitor: Any, text: str) -> None:
    visitor.page.locator("#composer").fill(text)


def text(page: Any) -> str:
    return " ".join(page.locator("#text p").all_inner_texts())


def heard(page: Any, words: str) -> None:
    """Wait until the listener has read these words."""
    page.wait_for_function(
        "words => [...document.querySelectorAll('#text p')].map((one) => one.textContent.trim()).join('\\n') === words",
        arg=words,
    )


def test_listeners_read_along(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    link = open_room(speaker)
    early = listen(link)
    early.locator('#status[data-state="live"]').wait_for()
    assert violations(early) == []
    speaker.page.wait_for_function("() => document.querySelector('#room-count').textContent === '1 listening now'")
    code = speaker.page.locator("#room-code")
    assert code.evaluate("async one => { await one.decode(); return one.naturalWidth; }") > 100
    assert violations(speaker.page) == []
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} {SECOND} ")
    speaker.finished(2)
    late = listen(link, color_scheme="dark")
    for page in (early, late):
        heard(page, speaker.translation())
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    spoken = early.get_by_role("log", name="Newest sentences")
    assert spoken.get_attribute("lang") == early.locator("#text").get_attribute("lang")  # the voice that reads it
    assert [one.strip() for one in spoken.locator("p").all_text_contents()] == speaker.translation().split("\n")


def test_a_room_has_a_name_and_a_code_for_the_last_row(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    speaker.forgiven = ".*422"  # the browser complains about the refusal
    page = speaker.page
    page.locator("#room").click()
    assert violations(page) == []
    page.locator("#room-name").fill("Spring Meeting")
    page.locator("#room-open").click()
    page.get_by_text("small letters, digits and single hyphens").wait_for()
    page.locator("#room-back").click()
    link = open_room(speaker, "spring-meeting")
    assert "#spring-meeting." in link
    listener = listen(link)
    listener.get_by_role("heading", name="spring-meeting").wait_for()
    with page.expect_popup() as opened:
        page.locator("#room-large").click()
    width = opened.value.evaluate("document.documentElement.getBoundingClientRect().width")
    assert width >= opened.value.evaluate("innerWidth") > 500


def test_forced_colours_show_what_is_pressed(visit: Any, listen: Callable[..., Any]) -> None:
    page = listen(open_room(visit()), forced_colors="active")
    ground = "one => getComputedStyle(one).backgroundColor"
    assert page.locator("#history").evaluate(ground) != page.locator("#doubt").evaluate(ground)


def test_a_large_zoom_leaves_room_for_the_text(visit: Any, listen: Callable[..., Any]) -> None:
    page = listen(open_room(visit()), viewport={"width": 320, "height": 200}, is_mobile=False)
    assert page.locator("#scroll").bounding_box()["height"] >= 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_phone_that_is_turned_shows_the_newest_words(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    page = listen(open_room(speaker))
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} {SECOND} " * 12)
    speaker.finished(24)
    heard(page, speaker.translation())
    for width, height in ((640, 360), (360, 640)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        last = page.locator("#text p").last.bounding_box()
        box = page.locator("#scroll").bounding_box()
        assert box["y"] <= last["y"] + last["height"] <= box["y"] + box["height"]
    assert page.locator("#now").is_hidden()


def test_what_a_listener_can_set(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    link = open_room(speaker)
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} {SECOND} ")
    speaker.finished(2)
    page = listen(link)
    heard(page, speaker.translation())
    size = "parseFloat(getComputedStyle(document.querySelector('#scroll')).fontSize)"
    before = page.evaluate(size)
    page.locator("#larger").tap()
    assert page.evaluate(size) > before
    for name in ("light", "dark", "yellow", "sepia"):
        page.locator("#colours").tap()
        assert page.evaluate("document.documentElement.dataset.colours") == name
        assert violations(page) == []
    page.locator("#history").tap()
    assert page.locator("#text p:visible").count() == 2  # the last sentence and the one before it
    assert page.locator("#history").get_attribute("aria-pressed") == "false"
    page.evaluate("document.addEventListener('copy', () => (window.copied = String(document.activeElement.value)))")
    page.locator("#copy").tap()
    assert page.evaluate("window.copied") == speaker.translation()
    page.reload()
    heard(page, speaker.translation())
    assert page.evaluate(size) > before  # the phone remembers
    for control in page.locator("#controls button").all():
        assert control.bounding_box()["height"] >= 40


def test_captions_for_obs(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    open_room(speaker)
    link = speaker.page.locator("#room-obs").evaluate("one => one.href")
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} {SECOND} {FIRST} {SECOND} ")
    speaker.finished(4)
    wide = {"viewport": {"width": 1280, "height": 720}, "is_mobile": False, "has_touch": False}
    page = listen(link.replace("size=48", "size=60"), **wide)
    page.wait_for_function("n => document.querySelectorAll('#text p').length === n", arg=4)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.querySelector('#scroll')).fontSize") == "60px"
    box = page.locator("#text").bounding_box()
    assert box["height"] <= 2 * 60 * 1.3 + 1
    assert box["y"] + box["height"] > 0.9 * 720
    last = page.locator("#text p").last.bounding_box()
    assert last["y"] + last["height"] <= box["y"] + box["height"] + 1
    assert page.locator("#controls").is_hidden()
    assert violations(page) == []


def test_a_restart_changes_nothing(
    visit: Any, listen: Callable[..., Any], serving: Callable[..., Server], tmp_path: Path
) -> None:
    server = serving("--rooms", str(tmp_path / "rooms"))
    speaker = visit(server)
    speaker.forgiven = ".*"  # browsers complain about a connection that was lost
    link = open_room(speaker)
    speaker.page.locator("#room-back").click()
    page = listen(link)
    say(speaker, f"{FIRST} temo himaki ")
    page.wait_for_function("() => document.querySelectorAll('#text p').length >= 1")
    server.kill()
    page.locator('#status[data-state="waiting"]').wait_for()
    server.start()
    page.locator('#status[data-state="live"]').wait_for()
    speaker.ready()
    say(speaker, "muru te kumu tohiru . ")
    speaker.finished(2)
    heard(page, speaker.translation())
    speaker.page.reload()  # the speaker's page goes on in the same room
    speaker.ready()
    before = text(page)
    say(speaker, f"{FIRST} ")
    speaker.finished(1)
    page.wait_for_function("() => document.querySelectorAll('#text p').length === 3")
    assert text(page).startswith(before)
    speaker.page.locator("#room").click()
    speaker.page.once("dialog", lambda dialog: dialog.accept())
    speaker.page.locator("#room-end").click()
    page.locator('#status[data-state="gone"]').wait_for()


def test_only_who_confirms_closes_the_room(visit: Any, listen: Callable[..., Any]) -> None:
    speaker = visit()
    link = open_room(speaker)
    assert "this computer only" in speaker.page.locator("#room-local:visible").inner_text()
    page = listen(link)
    page.locator('#status[data-state="live"]').wait_for()
    asked = []
    speaker.page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    speaker.page.locator("#room-end").click()
    assert "delete its text" in asked[0]
    assert speaker.page.locator("#room-link").is_visible()
    speaker.page.once("dialog", lambda dialog: dialog.accept())
    token = speaker.page.evaluate("JSON.parse(sessionStorage.getItem('bethink-room')).speaker.split('.')[1]")
    speaker.page.locator("#room-end").click()
    page.locator('#status[data-state="gone"]').wait_for()
    speaker.page.locator("#room-open:visible").wait_for()
    assert not [url for url in speaker.requests if token in url]  # logs of proxies keep addresses


def test_a_speaker_whose_room_is_gone_is_told_and_goes_on(visit: Any) -> None:
    speaker = visit()
    speaker.forgiven = ".*"  # browsers complain about a connection that was refused
    open_room(speaker)
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} ")
    speaker.finished(1)
    speaker.page.evaluate(
        """async () => {
            const [name, token] = JSON.parse(sessionStorage.getItem("bethink-room")).speaker.split(".");
            await fetch(`v1/rooms/${name}`, { method: "DELETE", headers: { Authorization: `Bearer ${token}` } });
        }"""
    )
    before = speaker.translation()
    say(speaker, f"{SECOND} ")
    speaker.page.locator('#status[data-state="refused"]').wait_for()
    assert "the room has ended" in speaker.page.locator("#status").inner_text()
    assert speaker.translation().startswith(before)
    speaker.page.locator("#clear").click()
    speaker.ready()
    say(speaker, f"{FIRST} ")
    speaker.finished(1)
    assert speaker.translation() == before
    speaker.page.locator("#room").click()
    speaker.page.locator("#room-open:visible").wait_for()


def test_a_listener_chooses_the_language(
    visit: Any, listen: Callable[..., Any], serving: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    other(tmp_path / "models" / "second", "second")
    server = serving(models=(str(ROOT / "models" / "toy"), str(tmp_path / "models" / "second")))
    speaker = visit(server)
    link = open_room(speaker)
    speaker.page.locator("#room-back").click()
    say(speaker, f"{FIRST} ")
    speaker.finished(1)
    page = listen(link)
    heard(page, speaker.translation())
    assert page.locator("#language option").count() == 2
    page.locator("#language").select_option("second")
    heard(page, speaker.translation())


def test_a_correction_is_seen_once_in_another_style(
    visit: Any, listen: Callable[..., Any], serving: Callable[..., Server]
) -> None:
    server = serving("--repair", "--policy", "wait-k:k=2", models=(str(ROOT / "models" / "de-en"),))
    speaker = visit(server)
    link = open_room(speaker)
    speaker.page.locator("#room-back").click()
    early, obs = listen(link), listen(link.replace("listen.html", "listen.html?view=captions"))
    say(speaker, "Der Ausschuss hat beschlossen, die Steuern in diesem Jahr nicht zu erhöhen. Das ist ein Baum. ")
    speaker.finished(2)
    for page in (early, listen(link), obs):
        page.wait_for_function("() => document.querySelectorAll('#text p').length === 2")
        (correction,) = page.locator(".correction").all()
        assert re.search(r"— correction: .*\bnot\b", correction.inner_text())
        assert correction.evaluate("one => getComputedStyle(one).fontStyle") == "italic"
        assert violations(page) == []
    line = "getComputedStyle(document.querySelector('.doubt')).textDecorationStyle"
    assert early.evaluate(line) == "solid"  # the page marks words that were written early only for those who ask
    early.locator("#doubt").tap()
    assert early.evaluate(line) == "dotted"
    for name in ("light", "dark", "yellow", "sepia"):
        early.locator("#colours").tap()
        assert early.evaluate("document.documentElement.dataset.colours") == name
        assert violations(early) == []
    early.evaluate("document.addEventListener('copy', () => (window.copied = String(document.activeElement.value)))")
    early.locator("#copy").tap()
    assert early.evaluate("window.copied").count("— correction: ") == 1
    assert "— correction: " in early.locator("#spoken").inner_text()


def test_links_that_lead_nowhere(server: Server, listen: Callable[..., Any]) -> None:
    for link, said in (("listen.html", "not complete"), ("listen.html#nowhere.x", "has ended")):
        page = listen(server.url + link)
        page.locator('#status[data-state="gone"]').wait_for()
        assert said in page.locator("#status").inner_text()


def test_the_page_is_light_and_plain() -> None:
    """For old phones: small, one script without modules, nothing newer than ES2017."""
    files = [PAGE / f"listen.{kind}" for kind in ("html", "css", "js")]
    assert sum(file.stat().st_size for file in files) <= 30_000
    script = (PAGE / "listen.js").read_text("utf-8")
    assert not re.search(r"\?\.[a-z(\[]|\?\?|^import |replaceChildren|\.at\(|\.\.\.", script, re.MULTILINE)
