"""Makes the golden files with the real SimulEval: run it in an environment that has `pip install simuleval==1.1.4`.

    python make.py run      an agent of ours reads source.txt; SimulEval writes simuleval.log and scores it
    python make.py score    SimulEval scores bethink.log, which bethink wrote (see test_golden.py)

SimulEval prints three decimals, so its scorers are called for the rest. The sentences were written for this purpose.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import sacrebleu
from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import ReadAction, WriteAction
from simuleval.evaluator import SentenceLevelEvaluator

HERE = Path(__file__).parent
LATENCY = ["AL", "LAAL", "AP", "DAL"]


def dictionary() -> dict[str, str]:
    """Source and reference words side by side, a poor man's dictionary."""
    sources: list[str] = []
    references: list[str] = []
    for source, reference in zip(lines("source.txt"), lines("reference.txt"), strict=True):
        sources += source.split()
        references += (reference.split() * 2)[: len(source.split())]
    return dict(zip(sources, references, strict=True))


def lines(name: str) -> list[str]:
    return (HERE / name).read_text("utf-8").removesuffix("\n").split("\n")


class Agent(TextToTextAgent):
    """Reads on after short words, otherwise says what it has, skips words on commas, says nothing to 'Hm'."""

    words = dictionary()

    def policy(self):
        source, said = self.states.source, len(" ".join(self.states.target).split())
        if self.states.source_finished:
            rest = [] if source == ["Hm"] else [self.words[word] for word in source[said:] if "," not in word]
            return WriteAction(" ".join(rest), finished=True)
        if len(source) < 2 or len(source[-1]) < 4:
            return ReadAction()
        ready = [self.words[word] for word in source[said:-1]]
        return WriteAction(" ".join(ready), finished=False) if ready else ReadAction()


def evaluator(folder: Path, *, score_only: bool) -> SentenceLevelEvaluator:
    return SentenceLevelEvaluator.from_args(
        Namespace(
            output=str(folder),
            score_only=score_only,
            no_scoring=False,
            source=str(HERE / "source.txt"),
            target=str(HERE / "reference.txt"),
            tgt_lang=None,
            source_type="text",
            target_type="text",
            source_segment_size=1,
            dataloader="text-to-text",
            latency_metrics=LATENCY,
            quality_metrics=["BLEU"],
            computation_aware=False,
            no_use_ref_len=False,
            sacrebleu_tokenizer="13a",
            eval_latency_unit="word",
            eval_latency_spm_model=None,
            continue_unfinished=False,
            no_progress_bar=True,
            start_index=0,
            end_index=-1,
        )
    )


def save(name: str, scored: SentenceLevelEvaluator) -> None:
    made_with = {"python": platform.python_version(), "sacrebleu": sacrebleu.__version__}
    made_with["simuleval"] = importlib.metadata.version("simuleval")
    scores = {"made_with": made_with, "scores": {**scored.quality, **scored.latency}}
    (HERE / name).write_text(json.dumps(scores, indent=2) + "\n", "utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if sys.argv[1:] == ["run"]:
            evaluator(folder, score_only=False)(Agent(Namespace()))
            shutil.copy(folder / "instances.log", HERE / "simuleval.log")
            save("simuleval.json", evaluator(folder, score_only=True))
        else:
            shutil.copy(HERE / "bethink.log", folder / "instances.log")
            save("bethink.json", evaluator(folder, score_only=True))


if __name__ == "__main__":
    main()
