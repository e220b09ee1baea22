"""Evaluation: run policies over a test set, score quality and latency, draw the results."""

from __future__ import annotations

from bethink.evaluate.instances import Instance, Scores, instance, read_log, rescore, score
from bethink.evaluate.quality import Quality
from bethink.evaluate.run import Result, evaluate, load_pairs, load_results, table, write_results

__all__ = [
    "Instance",
    "Quality",
    "Result",
    "Scores",
    "evaluate",
    "instance",
    "load_pairs",
    "load_results",
    "read_log",
    "rescore",
    "score",
    "table",
    "write_results",
]
