"""Runs our agent under the real SimulEval and prints its scores unrounded; for a Python that has simuleval 1.1.4.

python simuleval_run.py SOURCE REFERENCE OUTPUT MODEL POLICY
"""

from __future__ import annotations

import json
import logging
import sys
from argparse import Namespace

from simuleval.evaluator import SentenceLevelEvaluator

from bethink.simuleval import Agent


def main() -> None:
    source, reference, output, model, policy = sys.argv[1:]
    logging.disable(logging.WARNING)
    settings = {
        "output": output,
        "no_scoring": False,
        "source": source,
        "target": reference,
        "tgt_lang": None,
        "source_type": "text",
        "target_type": "text",
        "source_segment_size": 1,
        "dataloader": "text-to-text",
        "latency_metrics": ["AL", "LAAL", "AP", "DAL"],
        "quality_metrics": ["BLEU"],
        "computation_aware": False,
        "no_use_ref_len": False,
        "sacrebleu_tokenizer": "13a",
        "eval_latency_unit": "word",
        "eval_latency_spm_model": None,
        "continue_unfinished": False,
        "no_progress_bar": True,
        "start_index": 0,
        "end_index": -1,
    }
    agent = Agent(Namespace(model=model, policy=policy, threads=1))
    SentenceLevelEvaluator.from_args(Namespace(**settings, score_only=False))(agent)
    scored = SentenceLevelEvaluator.from_args(Namespace(**settings, score_only=True))
    print(json.dumps({**scored.quality, **scored.latency}))


if __name__ == "__main__":
    main()
