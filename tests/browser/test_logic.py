"""The page's own reasoning, without a page around it: resuming, transcript, captions, typing, dictation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from bethink.policy import Offline, Policy, PostEvaluation, Reason, Weighing, explain, reasons


@dataclass(frozen=True)
class Texts(Policy):
    text: str = ","


@pytest.fixture(scope="module")
def run(browser: Any, server: Any) -> Any:
    """Runs JavaScript with the named modules at hand as m."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url + "icon.svg")

    def evaluated(modules: str, body: str) -> Any:
        loads = ", ".join(f"import('/{name}.js')" for name in modules.split())
        return page.evaluate(
            f"async () => {{ const m = Object.assign({{}}, ...await Promise.all([{loads}])); {body} }}"
        )

    yield evaluated
    context.close()


GERMAN = ["de-town.txt", "de-bread.txt"]
STEPS = """
let n = 0;
const step = (action, text, more) => ({n: n++, sentence: 0, action, text, token: 9, read: 0, heard: 0, written: 0, ...more});
"""


def test_the_buffer_keeps_what_a_server_may_need_again(run: Any) -> None:
    kept = run(
        "resume",
        """
        const buffer = new m.ResumeBuffer("toy", "wait-k:k=1");
        buffer.ready({model: "toy@1", policy: "wait-k:k=1", sentence: 0, step: 0, offset: 0, spoken: false});
        buffer.feed("eins zwei. "); buffer.change("offline"); buffer.feed("drei vi"); buffer.feed("er ");
        buffer.step({n: 0, check: "aa"}); buffer.step({n: 1, check: "bb"});
        const again = buffer.step({n: 1, check: "bb"});
        buffer.finish({model: "toy@1", policy: "wait-k:k=1", sentence: 1, step: 2, offset: 11, spoken: true});
        const atPoint = buffer.start("");
        buffer.step({n: 2, check: "cc"});
        return {again, atPoint, later: buffer.start("geheim"), replay: buffer.replay(), position: buffer.position};
        """,
    )
    assert kept["again"] is False
    assert kept["atPoint"]["resume"] == {
        "model": "toy@1", "policy": "wait-k:k=1", "sentence": 1, "step": 2, "offset": 11, "spoken": True, "seen": 2,
    }  # fmt: skip
    assert (kept["later"]["resume"]["seen"], kept["later"]["resume"]["check"]) == (3, "cc")
    assert kept["later"]["token"] == "geheim"
    assert kept["replay"] == [
        {"type": "policy", "policy": "offline"},
        {"type": "text", "text": "drei vi"},
        {"type": "text", "text": "er "},
    ]
    assert kept["position"] == 21


def test_the_buffer_cuts_through_a_message_and_long_texts_into_pieces(run: Any) -> None:
    found = run(
        "resume",
        """
        const buffer = new m.ResumeBuffer("toy", "offline");
        buffer.feed("a. b c ");
        buffer.finish({model: "toy@1", policy: "offline", sentence: 1, step: 9, offset: 3, spoken: true});
        const rest = buffer.replay();
        const pieces = buffer.feed("x".repeat(20000)).map((message) => message.text.length);
        return {rest, pieces, kept: buffer.kept.map((entry) => entry.at)};
        """,
    )
    assert found["rest"] == [{"type": "text", "text": "b c "}]
    assert found["pieces"] == [8000, 8000, 4000]
    assert found["kept"] == [3, 7, 8007, 16007]


def test_a_stream_that_cannot_go_on_begins_anew_with_the_open_sentence(run: Any) -> None:
    found = run(
        "resume",
        """
        const buffer = new m.ResumeBuffer("toy", "offline");
        buffer.feed("a. b ");
        buffer.finish({model: "toy@1", policy: "wait-k:k=2", sentence: 1, step: 9, offset: 3, spoken: true});
        buffer.anew();
        return {start: buffer.start(""), replay: buffer.replay(), position: buffer.position, generation: buffer.generation};
        """,
    )
    assert found["start"] == {"type": "start", "version": 2, "model": "toy", "policy": "wait-k:k=2"}
    assert found["replay"] == [{"type": "text", "text": "b "}]
    assert (found["position"], found["generation"]) == (2, 1)


@pytest.mark.parametrize(
    ("code", "then"),
    [
        *[(code, "resume") for code in (1001, 1006, 1011, 1012, 4430)],
        *[(code, "stop") for code in (1007, 1009, 4400, 4401, 4404, 4413)],
        *[(4429, "wait"), (4503, "wait"), (4408, "rest"), (4409, "anew"), (1000, "done")],
    ],
)
def test_every_close_has_a_meaning(run: Any, code: int, then: str) -> None:
    assert run("resume", f"return m.meaning({code}, '')") == then


def test_the_pauses_between_attempts_grow_and_vary(run: Any) -> None:
    pauses = run("resume", "return [0, 1, 2, 9].map((n) => [m.pause(n, 0), m.pause(n, 1)])")
    assert pauses == [[0.375, 0.625], [0.75, 1.25], [1.5, 2.5], [7.5, 12.5]]


def test_a_word_takes_the_gain_of_its_own_tokens_though_it_is_shown_later(run: Any) -> None:
    """The source word of two tokens has the larger gain of the two."""
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        const take = (s, now) => t.step(s, 0, now, now);
        take(step("READ", "Haus", {read: 1, heard: 1}), 1);
        take(step("READ", "tür", {read: 2, heard: 2}), 2); take(step("READ", "", {read: 3, heard: 2}), 2);
        const evidence = {evidence: [0], reason: {code: "evidence"}};
        take(step("WRITE", "", {heard: 1, gain: [0.3, 0, 0.001], confidence: 0.9, ...evidence}), 3);
        take(step("WRITE", "", {heard: 1, gain: [0.4, 0.1, -0.1], confidence: 0.6}), 3);
        take(step("WRITE", "door", {heard: 2, gain: [0, 0.2, 0.5], evidence: [1, 2]}), 4);
        take(step("READ", "", {read: 4, heard: 2, end: true}), 5);
        take(step("WRITE", " bell", {heard: 2, end: true}), 6);
        return t.sentences[0].target;
        """,
    )
    door, bell = words
    assert (door["text"], door["gain"], door["evidence"], door["heard"]) == ("door", [[0, 0.4], [1, 0.1]], [0], 1)
    assert (door["confidence"], door["lag"], door["at"], door["reason"]) == (0.6, 3, 4, {"code": "evidence"})
    assert (bell["text"], bell["gain"], bell["evidence"]) == (" bell", [[1, 0.5]], [1])


def test_the_least_sure_token_before_the_end_speaks_for_its_word(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        const write = (text, code, more) => step("WRITE", text, {reason: {code}, ...more});
        for (const s of [
          step("READ", "Haus"), write("", "sure", {confidence: 0.9}), write("", "lag_limit", {confidence: 0.5, deferred: 2}),
          step("READ", "", {end: true}), write("", "source_complete", {confidence: 0.2}), write("doorbell", "source_complete"),
          write(" rings", "source_complete", {end: true}),
        ]) t.step(s, 0, 1, 1);
        return t.sentences[0].target.map(({reason, confidence, deferred}) => [reason.code, confidence, deferred]);
        """,
    )
    assert words == [["lag_limit", 0.2, 2], ["source_complete", None, 0]]


def test_numbers_names_and_doubtful_words_are_known(run: Any) -> None:
    noted, words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (const s of [
          step("READ", "Da"), step("READ", "kam"), step("READ", "Angela", {notice: "name"}), step("READ", "Merkel,", {notice: "name"}),
          step("READ", "(12%)", {notice: "number"}), step("READ", "oder"), step("READ", "Kiew.", {notice: "name"}),
          step("WRITE", "Then", {text_stability: 0.96}), step("WRITE", " came", {text_stability: 0.98}),
          step("WRITE", " A.", {copied: "A", term: true}),
        ]) t.step(s, 0, 1, 1);
        return [m.noted(t.sentences), t.sentences[0].target.map(({doubtful, reason}) => [doubtful, reason.code])];
        """,
    )
    assert noted == ["Angela Merkel", "12%", "Kiew"]
    assert words == [[True, "policy"], [False, "policy"], [False, "term"]]


def test_stability_counts_for_more_than_confidence(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (const s of [
          step("READ", "Haus"), step("WRITE", "", {confidence: 0.2, stability: 0.97, reason: {code: "a"}}),
          step("WRITE", "", {confidence: 0.5, stability: 0.91, reason: {code: "b"}}),
          step("WRITE", "house", {confidence: 0.4}), step("WRITE", "", {end: true}),
        ]) t.step(s, 0, 1, 1);
        return t.sentences[0].target.map(({confidence, stability, reason}) => [confidence, stability, reason.code]);
        """,
    )
    assert words == [[0.2, 0.91, "b"]]


def test_what_a_word_translates_may_be_known_from_the_next_step(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        const heard = 2;
        for (const s of [
          step("READ", "a", {read: 1, heard: 1}), step("READ", "b", {read: 2, heard}), step("READ", "", {read: 3, heard, end: true}),
          step("WRITE", "B", {heard, degrees: [0.25, 0, 0]}), step("WRITE", " A", {heard, degrees: [0.25, 0.5, 0]}),
          step("WRITE", "", {heard, end: true, degrees: [0.75, 0.5, 0.125]}),
        ]) t.step(s, 0, 1, 1);
        return t.sentences[0].target.map(({gain}) => gain);
        """,
    )
    assert words == [[[1, 0.5]], [[0, 0.5], [2, 0.125]]]


def test_memory_is_bounded_however_long_the_talk(run: Any) -> None:
    found = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (let sentence = 0; sentence < m.FOLDED + 100; sentence += 1) {
          t.step(step("READ", "a", {sentence}), 0, sentence, sentence);
          t.step(step("WRITE", "b", {sentence}), 0, sentence, sentence);
          t.finish(sentence, 0);
          t.fold();
        }
        return [t.sentences.length - m.KEEP, t.folded.length - m.FOLDED, t.dropped + m.KEEP, t.all().at(-1).words];
        """,
    )
    assert found == [0, 0, 100, [{"text": "b", "at": 5099}]]


@pytest.mark.parametrize(
    ("reason", "evidence", "said"),
    [
        (Reason("evidence", 0.4, 0.2), [0], "Translates Haus."),
        (Reason("evidence", 0.4, 0.2), [0, 1], "Translates Haus and tür."),
        (Reason("evidence", 0.4, 0.2), [2], "Translates the end of the sentence."),
        (Reason("put_off_limit", 2, 2), [], "Put off 2×, the most allowed."),
        (Reason("scheduled", 5, 4), [], "On schedule: 5 read, 4 required."),
        (Reason("sure", 0.914, 0.9), [], "Sure enough: 91%, 90% required."),
        (Reason("source_complete"), [], "The source sentence is complete."),
        (Reason("unheard-of"), [], "Unheard-of."),
    ],
)
def test_why_a_word_was_written(run: Any, reason: Reason, evidence: list[int], said: str) -> None:
    """In the words that the server gives for a code, which are those of the terminal."""
    told = run(
        "transcript explain",
        f"""
        const sentence = new m.Sentence("0:0", 0);
        sentence.source.push({{text: "Haus", at: 0}}, {{text: "tür", at: 1}});
        sentence.target.push({{text: "door", at: 2, heard: 2, confidence: 0.91, stability: null, deferred: 0, gain: [[0, 0.4]],
          lag: 2, evidence: {evidence}, reason: {json.dumps(reason.to_dict())}}});
        const explanation = m.explain(sentence, 0, {json.dumps(reasons())});
        return [m.spoken(explanation), explanation.bar];
        """,
    )
    assert told[0].startswith(f"{said} Haus rose by 0.40. heard 2 words, sure 91%")
    assert told[1] == (0.2 if reason.code == "evidence" else None)
    if reason.code != "evidence":
        assert explain(reason).lower() + "." == said.lower()


def test_attention_is_shown_as_attention(run: Any) -> None:
    """By source word, on average over the tokens of the target word; not as a gain."""
    told = run(
        "transcript explain",
        STEPS
        + """
        const t = new m.Transcript();
        const take = (s, now) => t.step(s, 0, now, now);
        take(step("READ", "Haus", {read: 1, heard: 1}), 1);
        take(step("READ", "tür", {read: 2, heard: 2}), 2); take(step("READ", "", {read: 3, heard: 2}), 2);
        take(step("WRITE", "", {heard: 2, attention: [0.2, 0.3, 0.4]}), 3);
        take(step("WRITE", "", {heard: 2, attention: [0, 0.5, 0.4]}), 3);
        take(step("WRITE", "door", {heard: 2, attention: [1, 0, 0]}), 4);
        const explanation = m.explain(t.sentences[0], 0, {});
        return [t.sentences[0].target[0].gain, explanation.attention, explanation.rises, m.spoken(explanation)];
        """,
    )
    assert (told[0], told[2]) == ([], [])
    assert [(each["word"], round(each["share"], 3)) for each in told[1]] == [("tür", 0.8), ("Haus", 0.1)]
    assert "Attention: tür 80%, Haus 10%." in told[3]


def test_captions_have_times_and_at_most_two_lines(run: Any) -> None:
    text = run(
        "srt",
        """
        const words = (from, list) => list.split(" ").map((text, n) => ({text: n ? ` ${text}` : text, at: from + n * 0.4}));
        return m.srt([
          {source: "", words: words(0.5, "one two three four five six seven eight nine ten eleven twelve " +
            "thirteen fourteen fifteen sixteen seventeen eighteen.")},
          {source: "", words: []},
          {source: "", words: words(3661.25, "Short.")},
        ]);
        """,
    )
    cues = [cue.split("\n") for cue in text.strip().split("\n\n")]
    assert [cue[0] for cue in cues] == ["1", "2", "3"]
    assert cues[0][1] == "00:00:00,500 --> 00:00:06,100"
    assert cues[2][1:] == ["01:01:01,250 --> 01:01:02,250", "Short."]
    assert all(len(cue) <= 4 and len(line) <= 45 for cue in cues for line in cue[2:])
    assert " ".join(" ".join(cue[2:]) for cue in cues[:2]).split()[-1] == "eighteen."


def test_a_word_leaves_the_box_once_it_is_complete(run: Any) -> None:
    assert run("compose", "return ['', 'Hau', 'Haus ', 'das Haus i', 'a\\n'].map(m.cut)") == [
        ["", ""], ["", "Hau"], ["Haus ", ""], ["das Haus ", "i"], ["a\n", ""],
    ]  # fmt: skip
    assert run("compose", "return m.unwrap('\\neins\\nzwei.\\n \\ndrei\\r\\nvier')") == "eins zwei.\ndrei vier\n"


def test_dictated_words_pass_once_two_guesses_agree(run: Any) -> None:
    passed = run(
        "dictate",
        """
        const a = new m.Agreement();
        return [a.hear("der", false), a.hear("der Hund", false), a.hear("der Hund beißt", false), a.hear("der Hunt beißt den", false),
                a.hear("der Hund beißt den Mann", true), a.hear("ja", false), a.hear("ja gut", true)];
        """,
    )
    assert passed == ["", "der ", "Hund ", "", "beißt den Mann ", "", "ja gut "]


def test_policies_are_spelled_as_everywhere(run: Any) -> None:
    """The page fills in the form that the server gives, whatever the values."""
    for policy in (PostEvaluation(1, 0.2, 8), Weighing(rate=1.5), Offline(), Texts("a, b%=ü"), Texts("")):
        described = json.dumps(policy.describe(policy))
        values = "Object.fromEntries(policy.settings.map((one) => [one.name, one.default]))"
        spec = run("policy", f"const policy = {described}; return m.spell(policy, {values});")
        assert type(policy).parse(spec.removeprefix(policy.name).lstrip(":,")) == policy


def test_times_are_found_by_their_place_in_the_text(run: Any) -> None:
    assert run(
        "timeline",
        """
        const t = new m.Timeline();
        t.feed(5, 1); t.feed(9, 2); t.feed(20, 3);
        return [t.fedAt(4, 9), t.fedAt(5, 9), t.fedAt(6, 9), t.fedAt(21, 9)];
        """,
    ) == [1, 1, 2, 9]


def test_a_glossary_is_read_as_people_write_it(run: Any) -> None:
    text = r'# terms\n\nBahnhof\tstation = stop\r\nWärmepumpe* = heat pump\n"Rat" → council'
    assert run("glossary", f"return m.parse('{text}')") == {
        "terms": {"Bahnhof": "station = stop", "Wärmepumpe*": "heat pump", "Rat": "council"},
        "trouble": "",
    }
    for text in ("Rat", "= council", "Rat =", r"Rat\t"):
        assert run("glossary", f"return m.parse('ok = ja\\n{text}').trouble").startswith("Line 2 ")


def test_a_language_is_known_by_any_of_its_codes(run: Any) -> None:
    assert run(
        "samples",
        """
        const named = ["deu_Latn", "zho_Hans", "zho_Hant", "de-AT", "de_DE@euro", "english", "x y", "12", undefined];
        return named.map((source) => m.languageName(m.sourceLanguage({name: "x", about: {source}})));
        """,
    ) == ["German", "Chinese", "Traditional Chinese", "Austrian German", "German (Germany)", "English", "", "", ""]


def test_samples_are_offered_to_models_of_their_language(run: Any) -> None:
    assert run(
        "samples",
        """
        const files = (model) => m.samplesFor(model).map((sample) => sample.file);
        return [files({name: "x", about: {toy: true}}), files({name: "de-en"}),
                files({name: "x", about: {source: "German"}}), files({name: "en-vi"})];
        """,
    ) == [["toy-talk.txt"], GERMAN, GERMAN, []]
    assert (
        run(
            "samples",
            """return ["German", "deu", "deu_Latn", "de-AT"].map((source) => m.samplesFor({name: "x", about: {source}}).length)""",
        )
        == [len(GERMAN)] * 4
    )
    for file in GERMAN:
        assert len(run("samples", f"return m.load('{file}')").split()) > 200
