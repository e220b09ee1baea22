"""In what precision the kernels hand their results on."""

from __future__ import annotations

import torch
from torch import Tensor


def working_dtype(x: Tensor) -> torch.dtype:
    """What matrix products with x will be computed in."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
