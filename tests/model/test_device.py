"""Memory that training on a CPU frees and needs again at once."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys, torch
from bethink.model.device import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    first, second = torch.ones(8 << 20), torch.ones(16 << 20)
    del first, second
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Page faults of filling 96 MB that was filled and freed before."""
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_is_used_again_without_page_faults() -> None:
    assert faults("keep") < 100 < faults("let go")
