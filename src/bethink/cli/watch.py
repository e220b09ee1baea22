"""`bethink translate --watch`: shows people source and translation side by side, and the reason for each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bethink.cli.common import describe
from bethink.cli.words import COPIED, END, Told, Written
from bethink.evaluate import latency
from bethink.policy import Action, explain
from bethink.text import EOS, restored
from bethink.trace import Step, Translation, doubtful, shown

if TYPE_CHECKING:
    from bethink.cli.translate import Speaker

READ, WRITE, FAINT = "bold blue", "bold green", "dim"
COLUMN = 24  # width of the columns for what was heard and for what was written


@contextmanager
def watching(speaker: Speaker) -> Iterator[Watch]:
    """Print a line per decision and a summary at the end; on a terminal, the open sentence stays visible below."""
    console = Console(highlight=False)
    watch = Watch(speaker, console)
    console.print(Text(f"{'heard':{COLUMN}}{'written':{COLUMN}}sure  because", FAINT), soft_wrap=True)
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            watch.live = live
            yield watch
    else:
        yield watch
    console.print(summary(speaker, watch.sums))


@dataclass
class Sums:
    """Totals for the summary; sentences are not kept, because a stream may be endless."""

    sentences: int = 0
    heard: int = 0  # words
    written: int = 0  # words
    tokens: int = 0  # written, end-of-sentence included
    spoken: int = 0  # sentences with at least one word written
    lag: float = 0.0  # in words, summed over these

    def add(self, translation: Translation) -> None:
        source, delays = len(translation.source), translation.delays
        self.sentences += 1
        self.heard += source
        self.written += len(delays)
        self.tokens += len(translation.path)
        if delays:
            self.spoken += 1
            self.lag += latency.length_adaptive(delays, source, 0)  # there is no reference to be longer than the output


class Watch:
    """Prints a line for every decision; on a terminal, also the open sentence below them."""

    def __init__(self, speaker: Speaker, console: Console) -> None:
        self.sums = Sums()
        self.live: Live | None = None
        self._speaker, self._console = speaker, console
        self._target = speaker.translator.target
        self._told = Told(self._target)
        self._steps: list[Step] = []

    def step(self, step: Step) -> None:
        self._steps.append(step)
        self._told.push(step)
        if step.action is Action.READ:
            self._read(step)
        elif step.token != EOS:
            piece = step.text.strip() if step.reason.code == COPIED else self._target.piece(step.token)
            self._print(_write_line(piece, self._told.written([step])))
        if step.action is Action.WRITE and step.token == EOS:
            self._end_sentence()
        elif self.live:
            self.live.update(self._picture(), refresh=True)

    def _read(self, step: Step) -> None:
        """Print words; a later token of a word only if the next target token was put off there."""
        word = (
            END
            if step.token == EOS
            else step.text or (self._speaker.translator.source.piece(step.token) if step.deferred else "")
        )
        if word:
            self._print(_read_line(word, step))

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)

    def _end_sentence(self) -> None:
        translation = Translation.of(self._steps)
        self.sums.add(translation)
        if self.live:
            self.live.update(Text(), refresh=True)
        self._print(Text.assemble(("heard  ", FAINT), " ".join(translation.source)))
        self._print(Text.assemble(("wrote  ", FAINT), _marked(self._steps)))
        if correction := self._steps[-1].correction:
            self._print(Text.assemble(("correction  ", FAINT), (correction, "bold")))
        if self._told.noted:
            self._print(self._noted())
        self._print(Text())
        self._steps = []

    def _noted(self) -> Text:
        return Text.assemble(
            ("noted  ", FAINT), (" · ".join(word.strip(".,;:!?") for word in self._told.noted), "cyan")
        )

    def _picture(self) -> Panel:
        """The sentence so far; the newest word, which may be incomplete, is coloured."""
        writes = [step for step in self._steps if step.action is Action.WRITE]
        evidence = {word for word, _ in self._told.written(writes[-1:]).evidence} if writes else set()
        heard = Text(" ").join(Text(word, READ if word in evidence else "") for word in self._told.source)
        final = shown(writes).strip()
        whole = restored(self._target.decode([step.token for step in writes], tidy=True), self._told.copies)
        newest = "" if writes and writes[-1].reason.code == COPIED else whole[len(final) :]
        path = Text().join(Text(step.action[0], READ if step.action is Action.READ else WRITE) for step in self._steps)
        lines = [
            Text.assemble(("heard  ", FAINT), heard, ("▌", READ)),
            Text.assemble(("wrote  ", FAINT), final, (newest, WRITE), ("▌", WRITE)),
            *([self._noted()] if self._told.noted else []),
            Text.assemble(("path   ", FAINT), path),
        ]
        title = f"{self._speaker.translator.name} · {self._speaker.policy}"
        return Panel(Group(*lines), title=Text(title), title_align="left", border_style=FAINT)


def summary(speaker: Speaker, sums: Sums) -> Table | Text:
    """Model, policy, amount of text, lag and speed."""
    if not sums.sentences:
        return Text("there was nothing to translate")
    rounds = speaker.engine.rounds / sums.tokens
    rows = {
        "model": describe(speaker.translator),
        "policy": str(speaker.policy),
        "text": f"{sums.sentences} sentences, {sums.heard} words heard, {sums.written} words written",
        "lag (LAAL)": f"{sums.lag / max(sums.spoken, 1):.2f} words behind the speaker",
        "speed": f"{sums.tokens / speaker.computing:,.0f} tokens per second, {rounds:.2f} rounds per written token",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, FAINT), Text(value))
    return table


def _marked(steps: Sequence[Step]) -> Text:
    """The translation; words that are less stable than DOUBTFUL are underlined."""
    line = Text()
    for step in steps:
        if step.action is Action.WRITE:
            words = step.text.lstrip()
            line.append(step.text[: len(step.text) - len(words)])
            line.append(words, "bold underline" if doubtful(step.text_stability) else "bold")
    return line


def _read_line(word: str, step: Step) -> Text:
    line = Text.assemble(("READ   ", READ), word)
    if step.deferred:
        line.pad_right(max(1, 2 * COLUMN - line.cell_len))
        line.append(f"      {explain(step.reason)}", FAINT)
    return line


def _write_line(piece: str, written: Written) -> Text:
    line = Text.assemble(" " * COLUMN, ("WRITE  ", WRITE), (piece, "bold"))
    line.pad_right(max(1, 2 * COLUMN - line.cell_len))
    sure = "" if written.confidence is None else f"{written.confidence:.0%}"
    line.append(f"{sure:>4}  ", FAINT)
    line.append(written.because, "cyan" if written.evidence else FAINT)
    return line
