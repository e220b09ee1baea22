"""The page's own reasoning, without a page around it: resuming, transcript, captions, typing, dictation."""

from __future__ import annotations

from typing import Any

import pytest


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


def test_the_ledger_keeps_what_a_server_may_need_again(run: Any) -> None:
    kept = run(
        "ledger",
        """
        const ledger = new m.Ledger("toy", "wait-k:k=1");
        ledger.ready({model: "toy@1", policy: "wait-k:k=1", sentence: 0, step: 0, offset: 0, spoken: false});
        ledger.say("eins zwei. "); ledger.change("offline"); ledger.say("drei vi"); ledger.say("er ");
        ledger.step({n: 0, check: "aa"}); ledger.step({n: 1, check: "bb"});
        const again = ledger.step({n: 1, check: "bb"});
        ledger.finish({model: "toy@1", policy: "wait-k:k=1", sentence: 1, step: 2, offset: 11, spoken: true});
        const atPoint = ledger.start("");
        ledger.step({n: 2, check: "cc"});
        return {again, atPoint, later: ledger.start("geheim"), replay: ledger.replay(), position: ledger.position};
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


def test_the_ledger_cuts_through_a_message_and_long_texts_into_pieces(run: Any) -> None:
    found = run(
        "ledger",
        """
        const ledger = new m.Ledger("toy", "offline");
        ledger.say("a. b c ");
        ledger.finish({model: "toy@1", policy: "offline", sentence: 1, step: 9, offset: 3, spoken: true});
        const rest = ledger.replay();
        const pieces = ledger.say("x".repeat(20000)).map((message) => message.text.length);
        return {rest, pieces, kept: ledger.kept.map((entry) => entry.at)};
        """,
    )
    assert found["rest"] == [{"type": "text", "text": "b c "}]
    assert found["pieces"] == [8000, 8000, 4000]
    assert found["kept"] == [3, 7, 8007, 16007]


def test_a_stream_that_cannot_go_on_begins_anew_with_the_open_sentence(run: Any) -> None:
    found = run(
        "ledger",
        """
        const ledger = new m.Ledger("toy", "offline");
        ledger.say("a. b ");
        ledger.finish({model: "toy@1", policy: "wait-k:k=2", sentence: 1, step: 9, offset: 3, spoken: true});
        ledger.anew();
        return {start: ledger.start(""), replay: ledger.replay(), position: ledger.position, generation: ledger.generation};
        """,
    )
    assert found["start"] == {"type": "start", "version": 1, "model": "toy", "policy": "wait-k:k=2"}
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
    assert run("ledger", f"return m.meaning({code}, '')") == then


def test_the_pauses_between_attempts_grow_and_vary(run: Any) -> None:
    pauses = run("ledger", "return [0, 1, 2, 9].map((n) => [m.pause(n, 0), m.pause(n, 1)])")
    assert pauses == [[0.375, 0.625], [0.75, 1.25], [1.5, 2.5], [7.5, 12.5]]


def test_a_word_takes_the_gain_of_its_own_tokens_though_it_is_shown_later(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        const take = (s, now) => t.step(s, 0, "pe:k=1,rho=0.2,r=8", now, now);
        take(step("READ", "Haus"), 1); take(step("READ", "tür"), 2);
        take(step("WRITE", "", {heard: 1, gain: [[0, 0.3]], evidence: [0], confidence: 0.9}), 3);
        take(step("WRITE", "", {heard: 1, gain: [[0, 0.4], [1, 0.1]], confidence: 0.6}), 3);
        take(step("WRITE", "door", {heard: 2, gain: [[1, 0.5]], evidence: [1]}), 4);
        take(step("READ", "", {end: true}), 5);
        take(step("WRITE", " bell", {heard: 2, end: true}), 6);
        return t.sentences[0].target;
        """,
    )
    door, bell = words
    assert (door["text"], door["gain"], door["evidence"], door["heard"]) == ("door", [[0, 0.4], [1, 0.1]], [0], 1)
    assert (door["confidence"], door["lag"], door["at"]) == (0.6, 3, 4)
    assert (bell["text"], bell["gain"], bell["evidence"]) == (" bell", [[1, 0.5]], [1])


def test_a_word_chosen_before_the_end_and_shown_after_it_was_not_forced(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (const s of [
          step("READ", "Haus"), step("WRITE", "", {confidence: 0.9}), step("WRITE", "", {confidence: 0.5, deferred: 2}),
          step("READ", "", {end: true}), step("WRITE", "", {confidence: 0.2}), step("WRITE", "doorbell", {confidence: 0.8}),
          step("WRITE", " rings", {end: true}),
        ]) t.step(s, 0, "weigh", 1, 1);
        return t.sentences[0].target.map(({ended, confidence, doubt, deferred}) => [ended, confidence, doubt, deferred]);
        """,
    )
    assert words == [[False, 0.2, 0.5, 2], [True, 0.8, None, 0]]


def test_a_model_that_can_judge_is_asked_whether_a_word_will_stand(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (const s of [
          step("READ", "Haus"), step("WRITE", "", {confidence: 0.2, stability: .97}), step("WRITE", "", {confidence: 0.5, stability: 0.91}),
          step("WRITE", "house", {confidence: 0.4}), step("WRITE", "", {end: true}),
        ]) t.step(s, 0, "weigh", 1, 1);
        return t.sentences[0].target.map(({confidence, stability, doubt}) => [confidence, stability, doubt]);
        """,
    )
    assert words == [[0.2, 0.91, 0.91]]


def test_what_a_word_translates_may_be_told_by_the_next_step(run: Any) -> None:
    words = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (const s of [
          step("READ", "a"), step("READ", "b", {end: false}), step("READ", "", {end: true}),
          step("WRITE", "B", {heard: 2}), step("WRITE", " A", {heard: 2, settled: [[1, 0.4]]}),
          step("WRITE", "", {heard: 2, end: true, settled: [[0, 0.3], [2, 0.1]]}),
        ]) t.step(s, 0, "wait-k:k=1", 1, 1);
        return t.sentences[0].target.map(({gain, ended}) => ({gain, ended}));
        """,
    )
    assert words == [{"gain": [[1, 0.4]], "ended": True}, {"gain": [[0, 0.3], [2, 0.1]], "ended": True}]


def test_memory_is_bounded_however_long_the_talk(run: Any) -> None:
    found = run(
        "transcript",
        STEPS
        + """
        const t = new m.Transcript();
        for (let sentence = 0; sentence < m.FOLDED + 100; sentence += 1) {
          t.step(step("READ", "a", {sentence}), 0, "offline", sentence, sentence);
          t.step(step("WRITE", "b", {sentence}), 0, "offline", sentence, sentence);
          t.finish(sentence, 0, undefined);
          t.fold();
        }
        return [t.sentences.length - m.KEEP, t.folded.length - m.FOLDED, t.dropped + m.KEEP, t.all().at(-1).words];
        """,
    )
    assert found == [0, 0, 100, [{"text": "b", "at": 5099}]]


@pytest.mark.parametrize(
    ("policy", "word", "reason"),
    [
        ("pe:k=1,rho=0.2,r=8", "{evidence: [0]}", "It had heard Haus, which this word visibly translates."),
        (
            "pe:k=1,rho=0.2,r=8",
            "{evidence: [0, 1]}",
            "It had heard Haus and now tür, which this word visibly translates.",
        ),
        ("pe:k=1,rho=0.2,r=8", "{evidence: [1]}", "It had just heard tür, which this word visibly translates."),
        (
            "pe:k=1,rho=0.2,r=2",
            "{deferred: 2}",
            "It translated nothing clearly, but had been put off twice, and patience ends there.",
        ),
        ("wait-k:3", "{}", "Wait-k stays 3 word pieces behind, whatever they are."),
        ("adaptive", "{}", "The model was sure enough of it for the lag it had."),
        ("weigh:k=2,r=4,rate=1.2,rho=0.9", "{doubt: 0.91}", "The model was sure of it at once."),
        ("weigh", "{doubt: 0.91, deferred: 1}", "It had waited, and what it heard meanwhile made it sure."),
        ("weigh", "{doubt: 0.31, deferred: 3}", "The model was sure enough of it for how far ahead the speaker was."),
        ("weigh", "{doubt: 0.29}", "The model was not sure of it, but the speaker was getting too far ahead."),
        ("offline", "{ended: true}", "The sentence was over: there was nothing left to wait for."),
    ],
)
def test_why_it_spoke_now(run: Any, policy: str, word: str, reason: str) -> None:
    said = run(
        "transcript explain",
        f"""
        const sentence = new m.Sentence("0:0", 0, "{policy}");
        sentence.source.push({{text: "Haus", at: 0}}, {{text: "tür", at: 1}});
        sentence.target.push({{text: "door", at: 2, heard: 2, read: 2, ended: false, confidence: 0.91,
          doubt: 0.91, deferred: 0, gain: [[0, 0.4]], evidence: [], lag: 2, ...{word}}});
        return m.spoken(m.explain(sentence, 0));
        """,
    )
    assert said.startswith(f"{reason} Haus rose by 0.40. heard 2 words, sure 91 %")


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
    specs = ["pe:k=1,rho=0.2,r=8", "wait-k:k=3", "offline", "adaptive:k_max=10,rho_1=0.6"]
    assert run("policies", f"return {specs}.map((spec) => m.spell(m.parse(spec)))") == specs
    assert run("policies", "return m.parse('wait-k:5').values.k") == 5


def test_times_and_policies_are_found_by_their_place_in_the_text(run: Any) -> None:
    assert run(
        "timeline",
        """
        const t = new m.Timeline("a");
        t.say(5, 1); t.change(5, "b"); t.say(9, 2); t.say(20, 3);
        return [t.saidAt(4, 9), t.policyAt(5), t.saidAt(6, 9), t.policyAt(8), t.saidAt(21, 9)];
        """,
    ) == [1, "a", 2, "b", 9]


def test_samples_are_offered_to_models_of_their_language(run: Any) -> None:
    assert run(
        "samples",
        """
        const files = (model) => m.samplesFor(model).map((sample) => sample.file);
        return [files({name: "x", about: {toy: true}}), files({name: "de-en"}),
                files({name: "x", about: {source: "German"}}), files({name: "en-vi"})];
        """,
    ) == [["toy-talk.txt"], GERMAN, GERMAN, []]
    for file in GERMAN:
        assert len(run("samples", f"return m.load('{file}')").split()) > 200
