"""The live page as people use it: typing, playing a talk, changing the policy, asking why, taking the text along."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bethink import Glossary, Translator
from tests.browser.conftest import ROOT, Server, other

FIRST = "te riki nakoru , ne ruru wa homuran haturu ."
SECOND = "ne himu kiharu , temo himaki muru te kumu tohiru ka ne raru wa hikaru ."


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator("toy", threads=1)


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("german") / "log.txt", models=("de-en",))
    made.start()
    yield made
    made.kill()


def test_typed_words_become_captions(visit: Any, translator: Translator) -> None:
    visitor = visit()
    visitor.page.locator("#composer").press_sequentially(f"{FIRST} {SECOND} ")
    visitor.finished(2)
    assert visitor.source() == f"{FIRST} {SECOND}"
    assert visitor.translation() == f"{translator.translate(FIRST)}\n{translator.translate(SECOND)}"
    assert visitor.page.locator("#composer").input_value() == ""


def test_german_becomes_english(visit: Any, german: Server) -> None:
    """The bundled model: words of several pieces, and a policy that says afterwards what a word translates."""
    visitor = visit(at=german)
    page, said = visitor.page, "Wir wollen gemeinsam darüber sprechen, wie unsere Stadt in zehn Jahren aussehen soll."
    page.locator("#composer").press_sequentially(f"{said} ")
    visitor.finished(1)
    translation = visitor.translation()
    assert visitor.source() == said
    assert translation == Translator("de-en", threads=1).translate(said)
    assert re.search(r"\bcity\b.*\bten years\b", translation)
    assert page.locator("#target-head").inner_text() == "Translation · English"
    page.locator("#rows .target .word", has_text="city").hover()
    assert page.locator("#rows .source .word[data-gain]", has_text="Stadt").count() == 1
    assert re.match("Likely to stay|Late by|The source sentence is complete", page.locator(".why-reason").inner_text())
    page.keyboard.press("Alt+c")
    assert page.locator("#captions-text").inner_text().strip() == translation


def test_terms_are_written_as_the_glossary_says(visit: Any, german: Server) -> None:
    visitor = visit(at=german)
    page, said = visitor.page, "Die Wärmepumpen sind in unserer Stadt sehr beliebt."
    page.locator("#glossary").click()
    page.locator("#glossary-terms").fill("Wärmepumpe")
    page.locator("#glossary-use").click()
    assert page.locator("#glossary-notice").inner_text().startswith("Line 1 is not")
    file = {"name": "terms.tsv", "mimeType": "text/plain", "buffer": "# home\nWärmepumpe*\theat engines\n".encode()}
    page.locator("#glossary-file").set_input_files(file)
    page.wait_for_function("() => document.getElementById('glossary-terms').value.includes('heat engines')")
    page.locator("#glossary-use").click()
    page.locator("#composer").press_sequentially(f"{said} ")
    visitor.finished(1)
    translator = Translator("de-en", threads=1, glossary=Glossary({"Wärmepumpe*": "heat engines"}))
    assert visitor.translation() == translator.translate(said)
    page.locator("#rows .target .word", has_text="heat").hover()
    assert page.locator(".why-reason").inner_text() == "As the glossary says."
    page.reload()  # kept in the browser
    page.locator("#glossary.strong").click()
    assert "heat engines" in page.locator("#glossary-terms").input_value()


def test_numbers_and_names_are_shown_as_soon_as_they_are_heard(visit: Any, german: Server) -> None:
    visitor = visit(at=german)
    page = visitor.page
    assert page.locator("#noted").is_hidden()
    page.locator("#composer").press_sequentially("Gestern hat Angela Merkel mit 12 ")
    page.locator("#noted-list", has_text="12").wait_for()
    assert page.locator("#noted-list").inner_text() == "Angela Merkel · 12"
    assert page.locator("#rows .row.live").count() == 1


def test_a_word_is_shown_before_the_sentence_is_over_and_never_changes(visit: Any) -> None:
    visitor = visit()
    box = visitor.page.locator("#composer")
    seen = [""]
    *words, stop = SECOND.split()
    for count, word in enumerate(words, start=1):
        box.press_sequentially(f"{word} ")
        visitor.page.wait_for_function("n => document.querySelectorAll('#rows .source .word').length === n", arg=count)
        seen.append(visitor.translation())
    visitor.page.locator("#rows .target .word").first.wait_for()  # something is said before the full stop
    seen.append(visitor.translation())
    box.press_sequentially(f"{stop} ")
    visitor.finished(1)
    seen.append(visitor.translation())
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(seen))
    assert len(seen[-2]) < len(seen[-1])  # and the rest after it


def test_a_pasted_text_is_translated_whole(visit: Any, translator: Translator) -> None:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    visitor.page.evaluate(
        "text => navigator.clipboard.writeText(text)", FIRST.replace(" ne ", "\nne ") + "\n\n" + SECOND
    )
    visitor.page.locator("#composer").focus()
    visitor.page.keyboard.press("Control+V")
    visitor.finished(2)
    assert visitor.translation() == f"{translator.translate(FIRST)}\n{translator.translate(SECOND)}"


SAID = """
const { send } = WebSocket.prototype;
window.said = "";
WebSocket.prototype.send = function (message) {
  window.said += JSON.parse(message).text ?? "";
  send.call(this, message);
};
"""


def test_a_sample_talk_plays_at_the_chosen_rate_and_stops(visit: Any) -> None:
    visitor = visit(script=SAID)
    page = visitor.page
    page.get_by_role("radio", name="Play").check(force=True)
    assert page.locator("#sample option").all_inner_texts() == ["A talk in the toy language", "A text of your own"]
    page.locator("#rate").fill("400")
    assert page.locator("#rate-out").inner_text() == "400 words/min"
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('#rows .source .word').length >= 6")
    page.get_by_role("button", name="Stop").click()
    said = page.evaluate("said").strip()
    page.wait_for_timeout(400)  # in which two more words would have been said
    assert page.evaluate("said").strip() == said
    page.wait_for_function(
        "n => document.querySelectorAll('#rows .source .word').length === n", arg=len(said.split())
    )  # what was on its way has arrived
    assert visitor.source() == " ".join(said.split())
    page.locator("#rows .target .word").first.wait_for()


def test_changing_k_holds_from_the_next_sentence(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#policy").select_option("wait-k")
    page.locator("#setting-k").fill("1")
    words = FIRST.split()
    page.locator("#composer").press_sequentially(" ".join(words[:4]) + " ")
    page.wait_for_function("() => document.querySelectorAll('#rows .target .word').length === 4")
    page.locator("#setting-k").fill("5")
    page.get_by_text("Applies from the next sentence on.").wait_for()
    page.locator("#composer").press_sequentially(" ".join(words[4:]) + " " + " ".join(SECOND.split()[:6]) + " ")
    visitor.finished(1)
    page.wait_for_function("() => document.querySelectorAll('#rows .row:last-child .target .word').length === 2")
    first, second = visitor.translation().split("\n")
    assert first == translator.translate(FIRST, "wait-k:1")
    assert second == " ".join(translator.translate(SECOND, "wait-k:5").split()[:2])


def test_pointing_at_a_word_says_where_it_came_from_and_why_it_came_then(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").fill(f"{SECOND} ")
    visitor.finished(1)
    word = page.locator("#rows .target .word").nth(1)
    word.hover()
    assert page.locator(".why-word").inner_text() == word.inner_text()
    assert page.locator(".why-reason").inner_text().startswith("Translates ")
    lit = page.locator("#rows .source .word[data-gain]")
    assert lit.count() >= 1
    assert all(0 < float(gain) <= 1 for gain in lit.evaluate_all("all => all.map(one => one.dataset.gain)"))
    assert page.locator("#rows .source .word.unread").count() > 0  # the end had not been heard
    assert page.locator("#drawing svg .here").count() == 1
    page.mouse.move(5, 5)
    page.locator(".why-empty").wait_for()
    assert page.locator("#rows .source .word[data-gain]").count() == 0


@pytest.mark.parametrize("policy", ["pe", "wait-k", "offline"])
def test_a_word_written_without_looking_ahead_still_says_where_it_came_from(visit: Any, policy: str) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#policy").select_option(policy)
    page.locator("#composer").fill(f"{SECOND} ")
    visitor.finished(1)
    words = page.locator("#rows .target .word")
    words.nth(words.count() - 2).hover()  # the sentence had ended by then
    assert page.locator("#rows .source .word[data-gain]").count() >= 1
    assert page.locator(".rises .bar line").count() == 0  # there was no bar to pass


def test_a_click_holds_the_answer_open(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    page.locator("#rows .target .word").first.click()
    page.mouse.move(5, 5)
    assert page.locator(".why-word").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".why-word").count() == 0


def test_the_path_and_the_lag_follow(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#policy").select_option("offline")
    page.locator("#composer").press_sequentially("te riki nakoru ")
    page.get_by_text("words behind").wait_for()
    page.wait_for_function("() => document.querySelector('#lag .figure').textContent === '3'")
    page.locator("#finish").click()
    visitor.finished(1)
    page.wait_for_function("() => document.querySelector('#lag .figure').textContent === '0'")
    assert "3 words heard, 4 written" in page.locator("#drawing svg").get_attribute("aria-label")
    assert page.locator("#rows .glyph path").count() == 1


def test_copy_text_and_captions_can_be_taken_along(visit: Any, translator: Translator) -> None:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} {SECOND} ")
    visitor.finished(2)
    expected = f"{translator.translate(FIRST)}\n{translator.translate(SECOND)}\n"
    button = page.get_by_role("button", name="Copy")
    button.evaluate(
        "one => new MutationObserver(() => (window.told ??= one.textContent)).observe(one, {childList: true})"
    )
    button.click()
    page.wait_for_function("() => window.told === 'Copied'")  # and soon its name again
    assert page.evaluate("navigator.clipboard.readText()") == expected
    assert _downloaded(page, "Save text") == ("translation.txt", expected)
    name, captions = _downloaded(page, "Save SRT")
    assert name == "translation.srt"
    assert re.match(r"1\n00:0\d:\d\d,\d{3} --> 00:0\d:\d\d,\d{3}\n", captions)
    spoken = [line for line in captions.splitlines() if line and not re.fullmatch(r"\d+|[\d:,]+ --> [\d:,]+", line)]
    assert " ".join(spoken) == expected.strip().replace("\n", " ")


def _downloaded(page: Any, button: str) -> tuple[str, str]:
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_text(encoding="utf-8")


def test_caption_mode_shows_the_last_sentences_large(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    page.keyboard.press("Alt+c")
    assert page.locator("#captions-text").inner_text().strip() == translator.translate(FIRST)
    before = page.locator("#captions-text").evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert before >= 48
    page.get_by_role("button", name="Larger type").click()
    assert page.locator("#captions-text").evaluate("one => parseFloat(getComputedStyle(one).fontSize)") > before
    page.locator("#captions-input").fill(f"{SECOND} ")
    page.wait_for_function(
        "text => document.querySelector('#captions-text').innerText.includes(text)", arg=translator.translate(SECOND)
    )
    page.keyboard.press("Escape")
    assert page.locator("#captions-view").is_hidden()


def test_a_long_talk_folds_away_but_stays_in_the_files(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    page.get_by_role("radio", name="Play").check(force=True)
    page.locator("#sample").select_option("")
    page.locator("#own").fill("\n\n".join("te riki nakoru . temo tuti wa kinoru ." for _ in range(60)))
    page.evaluate("document.querySelector('#rate').max = 100000")
    page.locator("#rate").fill("100000")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('#folds details').length >= 3")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#folds summary')].at(-1)?.textContent.endsWith('to 80')"
    )
    visitor.finished(40)
    assert page.locator("#rows .row").count() == 40
    page.locator("#folds summary").first.click()
    page.locator("#folds dd").first.wait_for()
    assert page.locator("#folds dd").count() == 25
    assert len(_downloaded(page, "Save text")[1].splitlines()) == 120


def test_a_reader_who_scrolls_back_is_left_in_peace(visit: Any) -> None:
    visitor = visit()
    page = visitor.page
    box = page.locator("#composer")
    box.fill(f"{FIRST} {SECOND} " * 6)
    visitor.finished(12)
    near = "() => { const s = document.querySelector('#scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight < 60; }"
    page.wait_for_function(near)
    page.locator("#scroll").hover()
    page.mouse.wheel(0, -2000)
    page.locator("#jump").wait_for()
    page.wait_for_function("document.querySelector('#scroll').scrollTop === 0")
    box.fill(f"{FIRST} ")
    visitor.finished(13)
    assert page.locator("#scroll").evaluate("one => one.scrollTop") == 0
    page.locator("#jump").click()
    page.wait_for_function(near)
    page.locator("#jump").wait_for(state="hidden")


def test_a_new_transcript_begins_empty(visit: Any, translator: Translator) -> None:
    visitor = visit()
    page = visitor.page
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    page.get_by_role("button", name="New").click()
    assert page.locator("#welcome").is_visible()
    visitor.ready()
    page.locator("#composer").fill(f"{SECOND} ")
    visitor.finished(1)
    assert visitor.translation() == translator.translate(SECOND)


def test_a_server_with_a_token_asks_for_it(
    stranger: Any, serving: Callable[..., Server], tmp_path: Path, translator: Translator
) -> None:
    (tmp_path / "token").write_text("open-sesame\n")
    (tmp_path / "token").chmod(0o600)
    page = stranger
    page.goto(serving("--token-file", str(tmp_path / "token")).url)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Connect").click()
    page.get_by_text("this token is wrong").wait_for()
    page.get_by_label("Token").fill("open-sesame")
    page.get_by_role("button", name="Connect").click()
    page.locator('#status[data-state="ready"]').wait_for()
    page.locator("#composer").fill(f"{FIRST} ")
    page.wait_for_function(
        "text => document.querySelector('#rows .target')?.innerText === text", arg=translator.translate(FIRST)
    )
    assert "sesame" not in page.url


def test_another_model_begins_a_new_transcript(visit: Any, serving: Callable[..., Server], tmp_path: Path) -> None:
    page = (visitor := visit(serving(models=("toy", str(other(tmp_path / "second", "second")))))).page
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)
    assert page.locator("#model option").all_inner_texts() == ["toy", "second"]
    page.locator("#model").select_option("second")
    visitor.ready()
    assert visitor.translation() == ""
    page.locator("#composer").fill(f"{FIRST} ")
    visitor.finished(1)


def test_dictated_words_are_heard_and_a_pause_ends_the_sentence(visit: Any, translator: Translator) -> None:
    """The recogniser is the browser's and needs its maker's servers, so here it is played by the test."""
    visitor = visit(
        script="window.SpeechRecognition = class { start() { window.ear = this; } stop() { this.onend(); } };"
    )
    page = visitor.page

    def hears(text: str, final: bool) -> None:
        result = [{"isFinal": final, "0": {"transcript": text}}]
        page.evaluate("results => window.ear.onresult({resultIndex: 0, results})", result)

    page.get_by_role("radio", name="Dictate").check(force=True)
    page.get_by_role("button", name="Start listening").click()
    hears("te riki", final=False)
    hears("te riki nakoru", final=False)
    page.wait_for_function("() => document.querySelectorAll('#rows .source .word').length === 2")
    assert page.locator("#interim").inner_text() == "nakoru"
    hears("te riki nakoru", final=True)
    visitor.finished(1)
    assert visitor.translation() == translator.translate("te riki nakoru")
    page.get_by_role("button", name="Stop listening").click()
    page.get_by_role("button", name="Start listening").wait_for()


def test_a_policy_of_the_operators_own_is_on_the_page(visit: Any, serving: Callable[..., Server]) -> None:
    """Nothing on the page knows the policies: it offers what the server describes and says its reasons."""
    name = "punctuation_policy:Punctuation"
    page = (visitor := visit(serving("--policy", "pe", name, folder=ROOT / "examples"))).page
    assert page.locator("#policy").input_value() == "pe"
    page.locator("#policy").select_option(name)
    assert page.locator("#policy option:checked").inner_text() == "Punctuation"
    page.get_by_label("Marks").fill(",")
    page.get_by_label("Marks").blur()
    page.locator("#composer").press_sequentially("te riki nakoru ")
    page.wait_for_function("() => document.querySelectorAll('#rows .source .word').length === 3")
    assert visitor.translation() == ""
    page.locator("#composer").press_sequentially(", ")
    page.locator("#rows .target .word").first.hover()
    assert page.locator(".why-reason").inner_text() == "A punctuation mark was read."
    page.locator("#composer").press_sequentially("ne ruru . ")
    visitor.finished(1)


def test_what_may_come_next_is_grey_and_kept_nowhere(visit: Any, serving: Callable[..., Server]) -> None:
    """Off by default; switched on in mid-sentence, nothing that was written changes."""
    server = serving("--policy", "pe:k=1,rho=0.95,r=12")
    visitor = visit(server)
    page = visitor.page
    say = page.locator("#composer").fill
    say("te riki nakoru ")
    page.locator("#rows .source .word").nth(2).wait_for()
    assert page.locator("#foresee").get_attribute("aria-pressed") == "false"
    assert page.locator("[data-tail]").count() == 0
    before = visitor.translation()
    page.locator("#foresee").click()
    visitor.ready()
    tail = page.locator(".target[data-tail]")
    tail.wait_for()
    words = tail.get_attribute("data-tail")
    assert tail.evaluate("one => getComputedStyle(one, '::after').content").strip('"') == words
    ink, grey = (tail.evaluate("(one, part) => getComputedStyle(one, part).color", part) for part in (None, "::after"))
    assert ink != grey
    assert visitor.translation() == before  # the tail is no text of the page
    assert words.strip() not in page.locator("#spoken").inner_text().split()
    say("homuran haturu . ")
    visitor.finished(1)
    page.wait_for_function("() => !document.querySelector('[data-tail]')")
    assert visitor.translation().startswith(before)
    page.reload()
    visitor.ready()
    assert page.locator("#foresee").get_attribute("aria-pressed") == "true"  # this browser remembers
