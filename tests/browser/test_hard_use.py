"""What people tried to break on the page: captions, long pastes, undo, zoom, forced colours, plain HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from bethink import Translator
from tests.browser.test_page import FIRST, SECOND, _downloaded


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator("toy", threads=1)


def test_captions_take_the_typing_over(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").focus()
    page.keyboard.press("Alt+c")
    page.keyboard.type(f"{FIRST} ")
    page.wait_for_function(
        "text => document.querySelector('#captions-text').innerText.includes(text)", arg=translator.translate(FIRST)
    )
    page.locator("#captions-view.idle").wait_for()
    page.wait_for_function("() => getComputedStyle(document.querySelector('.captions-bar')).opacity === '0'")
    page.mouse.move(200, 200)
    assert page.locator("#captions-view.idle").count() == 0


def test_a_long_paste_says_what_is_left(visit: Any) -> None:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    page.evaluate("text => navigator.clipboard.writeText(text)", f"{SECOND} " * 400)
    page.locator("#composer").focus()
    page.keyboard.press("Control+V")
    page.wait_for_function(
        "() => /^[\\d,]+ words still to translate/.test(document.querySelector('.ahead-note')?.textContent)"
    )
    ahead, behind = page.evaluate(
        "() => [document.querySelector('.ahead').textContent, document.querySelector('.figure').textContent]"
    )
    assert ahead.endswith(" …")
    assert set(ahead[:-2].split()) <= set(SECOND.split())  # whole words, from the beginning
    assert int(behind) > 100
    page.evaluate("() => window.stop()")


def test_a_new_talk_can_be_undone(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    page.get_by_role("button", name="New").click()
    assert visitor.translation() == ""
    page.get_by_role("button", name="Undo").click()
    visitor.finished(1)
    page.locator("#composer").fill(f"{SECOND} ")
    visitor.finished(2)
    assert visitor.translation() == f"{translator.translate(FIRST)}\n{translator.translate(SECOND)}"
    assert page.locator("#undo").is_hidden()


def test_typing_stops_the_talk(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.get_by_role("radio", name="Play").check(force=True)
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('#rows .source .word').length >= 2")
    page.get_by_role("radio", name="Type").check(force=True)
    assert page.locator("#play").text_content() == "Play"
    page.locator("#composer").fill(f"{FIRST} ")
    page.wait_for_function(
        "text => document.querySelector('#rows').innerText.includes(text)", arg=translator.translate(FIRST)
    )
    assert visitor.translation().split("\n")[-1] == translator.translate(FIRST)


def test_both_languages_can_be_saved(visit: Any, translator: Translator) -> None:
    visitor = visit()
    visitor.page.locator("#composer").fill(f"{FIRST} {SECOND} ")
    visitor.finished(2)
    name, saved = _downloaded(visitor.page, "Save both")
    pairs = [f"{one}\n{translator.translate(one)}\n" for one in (FIRST, SECOND)]
    assert (name, saved) == ("both.txt", "\n".join(pairs))


def test_a_large_zoom_leaves_room_for_the_transcript(visit: Any) -> None:
    """1280 × 800 at 400 %."""
    visitor = visit(viewport={"width": 320, "height": 200})
    visitor.page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    assert visitor.page.locator("#scroll").bounding_box()["height"] >= 100
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_panel_that_opens_leaves_the_newest_words_in_view(visit: Any) -> None:
    visitor = visit(viewport={"width": 360, "height": 640})
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} " * 4)
    visitor.finished(4)
    page.locator("#tune").click()
    page.wait_for_timeout(300)
    near = "() => { const s = document.querySelector('#scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight < 60; }"
    assert page.evaluate(near)
    assert page.locator("#jump").is_hidden()
    last = page.locator("#rows .target .word").last.bounding_box()
    box = page.locator("#scroll").bounding_box()
    assert last["y"] >= box["y"]
    assert last["y"] + last["height"] <= box["y"] + box["height"]


@pytest.mark.parametrize("width", [720, 900, 1100])
def test_all_buttons_are_in_the_window(visit: Any, width: int) -> None:
    page = visit(viewport={"width": width, "height": 700}).page
    page.locator("#undo").evaluate("one => (one.hidden = false)")
    box = page.locator("#captions").bounding_box()
    assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_forced_colours_show_the_chosen_mode(visit: Any) -> None:
    page = visit(forced_colors="active").page
    chosen, other = (
        page.locator(f'input[value="{mode}"] + span').evaluate("one => getComputedStyle(one).backgroundColor")
        for mode in ("type", "play")
    )
    assert chosen != other


INSECURE = """
Object.defineProperty(window, "isSecureContext", { value: false });
window.SpeechRecognition = class {};
"""


def test_dictation_says_that_https_is_missing(visit: Any) -> None:
    page = visit(script=INSECURE).page
    page.get_by_role("radio", name="Dictate").check(force=True)
    assert "only on pages with HTTPS" in page.locator("#dictate-hint").inner_text()
    assert page.locator("#dictate").is_disabled()
