"""The operations of `reference` on the processor: compiled by numba, threaded, vectorized."""

from wina_kernels.cpu.masked_linear import masked_linear
from wina_kernels.cpu.sparse_linear import sparse_linear
from wina_kernels.cpu.top_k_linear import top_k_linear

__all__ = ["masked_linear", "sparse_linear", "top_k_linear"]
