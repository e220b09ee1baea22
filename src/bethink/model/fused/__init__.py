"""GPU kernels for training: embedding, attention, ReLU, residuals with LayerNorm, routing score and cross-entropy, each in one pass.

They compute what layers.py, capsules.py and losses.py say in plain torch, without writing the large arrays in between to memory: the
scores of attention, the B T I J C array of the routing, the probabilities of every word. Backward passes recompute them; of what
dropout kept, a bit a number is written. Only machines with CUDA and Triton import this package.
"""

from bethink.model.fused.attention import attend
from bethink.model.fused.cross_entropy import CrossEntropy
from bethink.model.fused.embedding import embed
from bethink.model.fused.feed import linear_relu
from bethink.model.fused.residual import add, add_norm, norm
from bethink.model.fused.routing import agree

__all__ = ["CrossEntropy", "add", "add_norm", "agree", "attend", "embed", "linear_relu", "norm"]
