"""Takes the pictures of the page that docs/ shows: `python -m tests.browser.screenshots`; with a folder, of all its views there."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.conftest import ROOT, Server, chromium

FIGURES = ROOT / "docs" / "figures"
DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder) / "log.txt", models=("de-en",))
        server.start()
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        try:
            take(browser, server.url)
        finally:
            browser.close()
            server.kill()


def take(browser: Any, url: str) -> None:
    page = opened(browser, url, **DESK)
    shoot(page, "page-welcome")
    speak(page, words=64)
    shoot(page, "page-desktop")
    page.locator("#rows .row").nth(2).locator(".target .word").nth(3).hover()
    shoot(page, "page-why")
    page.keyboard.press("Alt+c")
    shoot(page, "page-captions")
    page = opened(browser, url, color_scheme="dark", **DESK)
    speak(page, words=64)
    page.locator("#rows .row").nth(2).locator(".target .word").nth(8).hover()
    shoot(page, "page-dark")
    page = opened(browser, url, **PHONE)
    speak(page, words=40)
    shoot(page, "page-phone")
    page.locator("#rows .row").nth(1).locator(".target .word").nth(2).tap()
    shoot(page, "page-phone-why")

    take_room(browser, url)


def take_room(browser: Any, url: str) -> None:
    """The speaker's dialog, a listener's phone and the captions for OBS."""
    page = opened(browser, url, **DESK)
    page.locator("#room").click()
    page.locator("#room-name").fill("spring-meeting")
    page.locator("#room-open").click()
    page.locator("#room-link:visible").wait_for()
    shoot(page, "page-room")
    links = [page.locator(f"#room-{name}").evaluate("one => one.href") for name in ("link", "obs")]
    page.locator("#room-back").click()
    phone, captions = (browser.new_context(**settings).new_page() for settings in (PHONE, DESK))
    for one, link in zip((phone, captions), links, strict=True):
        one.goto(link)
        one.locator('#status[data-state="live"]').wait_for(state="attached")
    speak(page, words=50)
    shoot(phone, "listen-phone")
    shoot(captions, "listen-captions")


def opened(browser: Any, url: str, **settings: Any) -> Any:
    page = browser.new_context(**settings).new_page()
    page.goto(url)
    page.locator('#status[data-state="ready"]').wait_for()
    return page


def speak(page: Any, words: int) -> None:
    """The beginning of the sample talk, at the pace of a speaker."""
    page.locator("#welcome-play").click()
    page.wait_for_function(
        "n => document.querySelectorAll('#rows .source .word').length >= n", arg=words, timeout=120_000
    )
    page.locator("#play").click()
    page.locator("#play").blur()


def shoot(page: Any, name: str) -> None:
    from PIL import Image

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    if folder == FIGURES and not (FIGURES / f"{name}.png").exists():
        return
    page.wait_for_timeout(1200)  # until nothing moves
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.quantize(256, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)  # a third of the size
    print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
