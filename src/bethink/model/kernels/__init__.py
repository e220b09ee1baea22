"""Fused GPU kernels for training: the same computation as Transformer.forward and losses.cross_entropy, faster.

Those two functions ask `usable` and otherwise compute in plain PyTorch. The kernels do not write the large arrays in between to
memory: the scores of attention, the B T I J C array of the routing, the probabilities of every word. Backward passes recompute them.
"""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # Triton's own switch: runs kernels on a CPU, to test them
AVAILABLE = importlib.util.find_spec("triton") is not None and (torch.cuda.is_available() or INTERPRETED)

if AVAILABLE:
    from bethink.model.kernels.softmax import cross_entropy as cross_entropy
    from bethink.model.kernels.stack import forward as forward


def usable(x: Tensor) -> bool:
    """Whether the kernels can compute with a tensor: in training, on a GPU with Triton, and in no more precision than float32."""
    return AVAILABLE and (x.is_cuda or INTERPRETED) and x.dtype != torch.float64 and torch.is_grad_enabled()
