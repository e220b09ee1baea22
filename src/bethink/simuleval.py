"""An agent for SimulEval 1.1.4: runs the same model, policy and engine under that evaluator.

    simuleval --agent-class bethink.simuleval.Agent --model toy --policy pe:k=1,rho=0.2,r=8 \\
              --source source.txt --target reference.txt --output results

SimulEval calls `policy` once per source word and splits the answer at white space. So the agent returns everything that a source
word allows in one action, in whole words. A line is one sentence, as in `bethink evaluate`; the scores are the same.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from bethink.cli.common import DEFAULT
from bethink.engine import Engine
from bethink.errors import BethinkError
from bethink.policy import load
from bethink.session import Sentence
from bethink.text import Boundary
from bethink.trace import shown
from bethink.translator import Translator

try:
    from simuleval.agents import TextToTextAgent
    from simuleval.agents.actions import ReadAction, WriteAction
except ImportError:
    raise BethinkError(
        "the SimulEval agent needs SimulEval in the environment of bethink; install it with: pip install simuleval==1.1.4"
    ) from None

if TYPE_CHECKING:
    from bethink.text import Word


class Agent(TextToTextAgent):  # type: ignore[misc]
    """Sends each sentence through the engine, word by word."""

    def __init__(self, args: Namespace) -> None:
        self._translator = Translator(args.model or DEFAULT, threads=args.threads)
        self._policy = self._translator.policy if args.policy is None else load(args.policy)
        self._engine = Engine(self._translator.backend)
        self._sentence: Sentence | None = None
        super().__init__(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        parser.add_argument("--model", help="a model folder or the name of one (default: de-en)")
        parser.add_argument(
            "--policy", help="when to write, as in pe:k=3,rho=0.24,r=2 (default: what the model recommends)"
        )
        parser.add_argument("--threads", type=int, default=0, help="processor threads (default: all cores)")

    def reset(self) -> None:
        super().reset()
        if self._sentence is not None:
            self._sentence.abandon()
        self._sentence = None
        self._segmenter = self._translator.segmenter()
        self._heard = 0  # source words taken from SimulEval so far

    def policy(self) -> Any:
        finished = self.states.source_finished
        words = self._new_words(finished)
        for word in words:
            if self._sentence is None:
                self._sentence = Sentence(self._translator.target, self._engine, self._policy, word)
            else:
                self._sentence.feed(word)
        if self._sentence is None:
            return WriteAction("", finished=True) if finished else ReadAction()
        if finished and not self._sentence.closed:
            self._sentence.close()
        self._engine.run()
        text = shown(self._sentence.take()).strip()
        return WriteAction(text, finished=finished) if text or finished else ReadAction()

    def _new_words(self, finished: bool) -> list[Word]:
        """The words since the last call; a line is one sentence, so boundaries inside it are ignored."""
        fresh = self.states.source[self._heard :]
        self._heard += len(fresh)
        events = self._segmenter.feed("".join(f"{word} " for word in fresh))
        events += self._segmenter.finish() if finished else []
        return [event for event in events if not isinstance(event, Boundary)]
