"""For everyone: keyboard alone, screen readers, phones, dark rooms, and those whom movement troubles."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

FIRST = "te riki nakoru , ne ruru wa homuran haturu ."
SECOND = "temo himaki muru te kumu tohiru ka ne raru wa hikaru ."


def filled(visitor: Any) -> None:
    visitor.page.locator("#composer").fill(f"{FIRST} {SECOND} ")
    visitor.finished(2)


def violations(page: Any) -> list[str]:
    """What axe-core finds against WCAG 2.2 AA and its own best practices."""
    axe = resources.files(
        pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: pip install 'bethink[dev]'")
    )
    page.evaluate(axe.joinpath("axe.min.js").read_text(encoding="utf-8") + "; () => true")
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:120]}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit: Any, scheme: str) -> None:
    visitor = visit(color_scheme=scheme, reduced_motion="reduce")  # a colour in motion has no contrast to measure
    assert violations(visitor.page) == []
    filled(visitor)
    visitor.page.locator("#rows .target .word").nth(2).click()
    assert violations(visitor.page) == []


def test_axe_finds_nothing_in_the_other_views(visit: Any) -> None:
    visitor = visit(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    filled(visitor)
    visitor.page.locator("#tune").click()
    visitor.page.locator("#rows .target .word").nth(2).click()
    assert violations(visitor.page) == []
    visitor.page.locator("#sheet-close").click()
    visitor.page.locator("#glossary").click()
    assert violations(visitor.page) == []
    visitor.page.locator("#glossary-back").click()
    visitor.page.keyboard.press("Alt+c")
    assert violations(visitor.page) == []


def test_the_keyboard_alone_is_enough(visit: Any) -> None:
    page = (visitor := visit()).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'composer'")
    page.keyboard.type(f"{FIRST}\n{SECOND}\n")
    visitor.finished(2)
    for _ in range(30):  # back through the page to the one word that Tab reaches
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.matches('.target .word')"):
            break
    assert page.locator(".why-word").inner_text() == page.evaluate("document.activeElement.textContent") == "."
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == page.locator("#rows .target .word").nth(1).inner_text() == page.locator(".why-word").inner_text()
    assert page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('.row').getAttribute('aria-label')") == "Sentence 2"
    page.keyboard.press("Escape")
    assert page.locator(".why-word").count() == 0


def test_the_live_region_reads_each_committed_word_once(visit: Any) -> None:
    visitor = visit()
    filled(visitor)
    region = visitor.page.get_by_role("log", name="Translation")
    assert region.get_attribute("aria-live") == "polite"
    # how it falls into phrases depends on the moment, its text does not
    expected = visitor.translation().replace("\n", " ")
    visitor.page.wait_for_function(
        "text => document.querySelector('#spoken').textContent.length >= text.length", arg=expected
    )
    assert "".join(region.locator("p").all_text_contents()) == expected


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_sideways_scrolling(visit: Any, width: int) -> None:
    visitor = visit(viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    page = visitor.page

    def fits() -> bool:
        inside: bool = page.evaluate(
            "w => innerWidth === w && document.documentElement.scrollWidth <= w && document.querySelector('#scroll').scrollWidth <= w",
            width,
        )
        return inside

    assert fits()
    filled(visitor)
    assert fits()
    word = page.locator("#rows .row:last-child .target .word").nth(1)
    word.tap()
    page.locator("#inspector.open .why-word").wait_for()
    page.locator("#inspector").evaluate(
        "async one => { await Promise.all(one.getAnimations().map((slide) => slide.finished)); }"  # it has slid in
    )
    assert fits()
    row, sheet = page.locator("#rows .row:last-child .source").bounding_box(), page.locator("#inspector").bounding_box()
    assert row["y"] + row["height"] <= sheet["y"]  # the words that light up are not covered
    page.locator("#sheet-close").tap()
    page.locator("#tune").tap()
    page.locator("#setting-k").wait_for()
    page.get_by_role("radio", name="Play").check(force=True)
    assert fits()


def test_dark_rooms_and_still_screens_are_respected(visit: Any) -> None:
    page = visit(color_scheme="dark", reduced_motion="reduce").page
    channels = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(channels) < 40
    page.locator("#composer").press_sequentially("te riki nakoru ")
    page.locator("#rows .target .word").first.wait_for()
    assert page.locator("#rows .target .word").first.evaluate("one => getComputedStyle(one).animationName") == "none"
