"""Run policies over a test set with the live engine, log every sentence, and score the log."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bethink import __version__
from bethink.errors import DataError, MissingExtra, UsageError
from bethink.evaluate import latency
from bethink.evaluate.instances import LOG, Instance, Scores, instance, read_log, score
from bethink.evaluate.records import flaw, read
from bethink.files import read_lines, write
from bethink.policy import Policy
from bethink.text import normalise
from bethink.trace import Step, Translation, shown, words_begun

if TYPE_CHECKING:
    from rich.table import Table

    from bethink.translator import Translator

FORMAT = 1
Timed = tuple[int, Translation, Sequence[float]]  # line number and, with a clock, when each target word was shown
Progress = Callable[[Policy, int, int], None]  # policy, sentences done, sentences in all

_COLUMNS = (  # heading, kind, profile (if the kind has any) and measure in the scores, decimals
    ("LAAL\nwords", "latency", "simuleval", "LAAL", 2),
    ("BLEU\nstandard", "quality", "standard", "BLEU", 2),
    ("AL\nwords", "latency", "simuleval", "AL", 2),
    ("DAL\nwords", "latency", "simuleval", "DAL", 2),
    ("YAAL\nwords", "latency", "simuleval", "YAAL", 2),
    ("AL\npaper", "latency", "paper", "AL", 2),
    ("LAAL\npaper", "latency", "paper", "LAAL", 2),
    ("BLEU\npaper", "quality", "paper", "BLEU", 2),
    ("AL\nms", "latency", "clock", "AL", 0),
    ("LAAL\nms", "latency", "clock", "LAAL", 0),
    ("LongYAAL\nms", "latency", "longform", "LongYAAL", 0),
    ("LongYAAL\nCA, ms", "latency", "longform", "LongYAAL-CA", 0),
    ("lag ms,\n1st tenth", "longform", "", "lag, first tenth", 0),
    ("lag ms,\nlast tenth", "longform", "", "lag, last tenth", 0),
    ("longest\nstall, words", "longform", "", "stall", 0),
    ("loops\n%", "longform", "", "loops", 2),
    ("loops %,\nreference", "longform", "", "reference loops", 2),
    ("negation\nlost %", "meaning", "negation", "lost", 2),
    ("negation\ninvented %", "meaning", "negation", "invented", 2),
    ("numbers\nlost %", "meaning", "numbers", "lost", 2),
    ("names\nlost %", "meaning", "names", "lost", 2),
    ("hallucin-\nation %", "haste", "", "hallucination", 2),
    ("antici-\npated %", "haste", "", "anticipated", 2),
    ("content\ninvented %", "haste", "", "invented", 2),
    ("content\nlost %", "haste", "", "content_lost", 2),
    ("erasure\nwith tail", "tail", "", "erasure", 2),
)

_LEGEND = (
    "AL: how far the translation is behind the source, on average. LAAL: the same, but too long a translation does not lower it.\n"
    "DAL: the same, but each target word takes time. YAAL: LAAL of the words shown before the source ends. CA: with computing time."
)


@dataclass(frozen=True)
class Result:
    """One policy of one model over one test set."""

    model: str
    policy: str
    scores: Scores
    log: str  # the instances.log, beside results.json
    wpm: float | None = None  # words per minute of the simulated speaker; none without a clock
    versions: Mapping[str, str] = field(default_factory=dict)
    test: str = ""  # SHA-256 of the test set's lines
    fingerprint: str = ""  # of the model, if known
    spoken: str = ""  # the languages, as in de-en

    def to_dict(self) -> dict[str, Any]:
        record = asdict(self)
        scores: dict[str, Any] = record.pop("scores")
        return record | scores

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Result:
        scores = {field.name: record[field.name] for field in fields(Scores) if field.name in record}
        found: Result = read(cls, record | {"scores": scores}, "the result", others=True)
        return found


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    policies: Sequence[Policy],
    out_dir: str | os.PathLike[str],
    *,
    batch: int = 64,
    progress: Progress | None = None,
    clock: bool = False,
    wpm: float = 150.0,
    tail: bool = False,
) -> list[Result]:
    """Run every policy over the same sentences; write results.json and, for each policy, a folder with its instances.log.

    With `clock`, sentences are fed one by one and word by word at `wpm` words per minute, and computing time is measured;
    otherwise they are batched. An empty source line gets an empty translation. Measures of meaning compare with `offline`: it
    must be among the policies, or be in the folder already. With `tail`, the words are counted that would be taken back if the
    screen showed what may come next.
    """
    if not sources:
        raise DataError("there are no sentences to translate; expected at least one")
    if len(sources) != len(references):
        raise DataError(f"{len(sources)} source sentences but {len(references)} references; expected as many of each")
    if wpm <= 0:
        raise UsageError(f"the speaker's pace is {wpm} words per minute, but must be above 0")
    lines = "\n".join([*sources, "", *references])
    test = hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()
    folder = ResultFolder(Path(out_dir), translator, test)
    lengths = [_tokens(translator, reference) for reference in references]
    pace = 60_000 / wpm if clock else None

    def translated(policy: Policy) -> list[Instance]:
        found: dict[int, Instance] = {}
        for index, translation, elapsed in _translated(translator, sources, policy, batch, pace, tail):
            source_ms = len(translation.source) * pace if pace else None
            pair = sources[index], references[index]
            found[index] = instance(index, *pair, translation, elapsed, source_ms, lengths[index], tail=tail)
            if progress:
                progress(policy, len(found), len(sources))
        return [found[index] for index in range(len(sources))]

    wanted = {str(policy): policy for policy in policies}
    whole = translated(wanted["offline"]) if "offline" in wanted else folder.logged("offline")
    results: list[Result] = []
    for name, policy in wanted.items():
        instances = whole if name == "offline" else translated(policy)
        log = [each.to_dict() for each in instances]
        results.append(folder.add(policy, score(instances, whole, folder.spoken), log, wpm if clock else None))
    return results


def _tokens(translator: Translator, reference: str) -> int:
    """The length of a reference in model tokens, end-of-sentence included."""
    return sum(len(translator.target.encode(word)) for word in normalise(reference).split()) + 1


class ResultFolder:
    """The folder of one model's results on one test set: results.json and, for each policy, a folder with its log."""

    def __init__(self, folder: Path, translator: Translator, test: str) -> None:
        """Checked before translating, which may take hours: results already there must be of this model and test set."""
        self._folder, self._translator, self._test = folder, translator, test
        found = load_results(folder) if (folder / "results.json").is_file() else []
        if any((result.model, result.test) != (translator.name, test) for result in found):
            raise UsageError(f"{folder} holds results of another model or test set; give another folder with --out")
        known = {result.fingerprint for result in found} - {""}
        if translator.fingerprint and known - {translator.fingerprint}:
            raise UsageError(
                f"{folder} holds results of another model named {translator.name}; give another folder with --out"
            )
        self._results = {result.policy: result for result in found}
        self.spoken = "-".join(str(translator.about.get(side, "")) for side in ("source", "target"))
        _require_writable(folder)

    def logged(self, policy: str) -> list[Instance]:
        """The sentences of a policy that was evaluated earlier; none if it was not."""
        log = self._folder / self._results[policy].log if policy in self._results else None
        return read_log(log) if log and log.is_file() else []

    def add(self, policy: Policy, scores: Scores, log: Sequence[Mapping[str, Any]], wpm: float | None = None) -> Result:
        """Write the log of a policy, and its scores among those of the other policies."""
        place = re.sub(r"[^\w=.+-]+", "_", str(policy))
        write(self._folder / place / LOG, "".join(json.dumps(record) + "\n" for record in log))
        # `simuleval --score-only --output FOLDER` reads from this file what kind of data it scores.
        write(self._folder / place / "config.yaml", "source_type: text\ntarget_type: text\n")
        of = {"test": self._test, "fingerprint": self._translator.fingerprint, "spoken": self.spoken}
        made = Result(self._translator.name, str(policy), scores, f"{place}/{LOG}", wpm, versions(), **of)
        self._results[made.policy] = made
        write_results(self._folder / "results.json", list(self._results.values()))
        return made


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "it is a file" if folder.is_file() else (error.strerror or str(error)).lower()
        raise UsageError(f"cannot write to {folder}: {reason}; give another folder with --out") from None


def load_pairs(source: str | os.PathLike[str], reference: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """The lines of a source file and of its reference file."""
    sources, references = read_lines(source), read_lines(reference)
    if len(sources) != len(references):
        raise DataError(
            f"{source} has {len(sources)} lines but {reference} has {len(references)}; line n of one must translate line n of "
            "the other"
        )
    return sources, references


def write_results(path: str | os.PathLike[str], results: Sequence[Result]) -> None:
    record = {"format": FORMAT, "results": [result.to_dict() for result in results]}
    write(Path(path), json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def load_results(path: str | os.PathLike[str]) -> list[Result]:
    """The results in a results.json, or in the folder that holds one."""
    file = Path(path) / "results.json" if Path(path).is_dir() else Path(path)
    text = "\n".join(read_lines(file))
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise DataError(f"{file} has format {record['format']}; this version reads format {FORMAT}")
        return [Result.from_dict(result) for result in record["results"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{file} is not a results file of 'bethink evaluate' ({flaw(error)}); give a results.json or the folder that holds one"
        ) from None


def versions() -> dict[str, str]:
    """The versions of the packages that the scores depend on."""
    found = {"bethink": __version__, "python": platform.python_version()}
    for package in ("numpy", "onnxruntime", "sacrebleu", "sentencepiece", "torch"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def table(results: Sequence[Result]) -> Table:
    """For the terminal: one row per result, a column per measure that any of them has, and the signatures of BLEU below."""
    from rich.table import Table
    from rich.text import Text

    records = [asdict(result.scores) for result in results]
    columns = [column for column in _COLUMNS if any(_cell(record, column) for record in records)]
    made = Table(caption=Text(_caption(results)), caption_justify="left")
    made.add_column("model")
    made.add_column("policy", overflow="fold")
    for heading, *_ in columns:
        made.add_column(heading, justify="right")
    for result, record in zip(results, records, strict=True):
        made.add_row(Text(result.model), Text(result.policy), *(_cell(record, column) or "–" for column in columns))
    return made


def _cell(record: Mapping[str, Any], column: tuple[str, str, str, str, int]) -> str:
    _, kind, profile, measure, decimals = column
    value = (record[kind].get(profile, {}) if profile else record[kind]).get(measure)
    if value is None:
        return ""
    return f"{value['score'] if kind == 'quality' else value:.{decimals}f}"


def _caption(results: Sequence[Result]) -> str:
    lines = {
        f"{name} {profile}: {found.signature}"
        for result in results
        for profile, measures in result.scores.quality.items()
        for name, found in measures.items()
    }
    asked = next((result.scores.haste for result in results if result.scores.haste), {})
    rates = [f"{name.removeprefix('reference, ')}: {rate:.1f} %" for name, rate in asked.items() if "k=" in name]
    ahead = [f"k-anticipation of the reference: {', '.join(rates)}"] if rates else []
    sizes = sorted({result.scores.sentences for result in results})
    missing = [str(MissingExtra("BLEU", "train"))] if not lines else []
    return "\n".join([f"{', '.join(map(str, sizes))} sentences", _LEGEND, *ahead, *sorted(lines), *missing])


def _translated(
    translator: Translator, sources: Sequence[str], policy: Policy, batch: int, pace: float | None, tail: bool
) -> Iterator[Timed]:
    """Batched or, with a pace in milliseconds per word, one by one."""
    if pace is None:
        for index, translation in translator.as_completed(sources, policy, batch=batch, tail=tail):
            yield index, translation, ()
        return
    _listen(translator, sources[0], policy, pace)  # warm-up: the first use of a model allocates memory
    for index, source in enumerate(sources):
        yield index, *_listen(translator, source, policy, pace, where=f"line {index + 1}", tail=tail)


def _listen(
    translator: Translator, line: str, policy: Policy, pace: float, where: str = "line 1", *, tail: bool = False
) -> tuple[Translation, Sequence[float]]:
    """Feed a line word by word, one per `pace` milliseconds, and measure when each target word is shown.

    The end of the sentence arrives with its last word. All steps caused by one word are shown together, when the work on
    that word is done. As in a batch, a line is one sentence.
    """
    from bethink.engine import Engine
    from bethink.session import Sentence

    words = translator.words(line, where)
    if not words:
        return Translation.of([]), ()
    engine = Engine(translator.backend)
    answers: list[list[Step]] = []
    computing: list[float] = []
    sentence: Sentence | None = None
    for word in (*words, None):
        start = time.perf_counter()
        if sentence is None:
            sentence = Sentence(translator.target, engine, policy, words[0], tail=tail)
        else:
            sentence.close() if word is None else sentence.feed(word)
        engine.run()
        answers.append(sentence.take())
        computing.append((time.perf_counter() - start) * 1000)
    arrivals = [pace * count for count in (*range(1, len(words) + 1), len(words))]
    ends = latency.schedule(arrivals, computing)
    elapsed: list[float] = []
    for answer, end in zip(answers, ends, strict=True):
        elapsed += [end] * words_begun(shown(answer), first=not elapsed)
    return Translation.of([step for answer in answers for step in answer]), elapsed
