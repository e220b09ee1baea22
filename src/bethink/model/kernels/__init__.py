"""GPU kernels for training: embedding, attention, ReLU, residuals with LayerNorm, routing score and cross-entropy, each in one pass.

They compute what layers.py, capsules.py and losses.py say in plain torch, without writing the large arrays in between to memory: the
scores of attention, the B T I J C array of the routing, the probabilities of every word. Backward passes recompute them; of what
dropout kept, a bit a number is written. Only machines with CUDA and Triton import this package.
"""

from bethink.model.kernels.attention import attend
from bethink.model.kernels.cross_entropy import CrossEntropy
from bethink.model.kernels.embedding import embed
from bethink.model.kernels.feed import linear_relu
from bethink.model.kernels.residual import add, add_norm, norm
from bethink.model.kernels.routing import agree

__all__ = ["CrossEntropy", "add", "add_norm", "agree", "attend", "embed", "linear_relu", "norm"]
