"""Where torch computes, and what becomes of its memory."""

from __future__ import annotations

import subprocess
import sys

KEEPS = "from bethink.model.device import keep_freed_memory; print(keep_freed_memory())"


def test_glibc_is_asked_to_keep_memory_and_agrees() -> None:
    """In a process of its own, because the setting is for all of it. What it gains was measured, and depends on the system."""
    done = subprocess.run([sys.executable, "-c", KEEPS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
