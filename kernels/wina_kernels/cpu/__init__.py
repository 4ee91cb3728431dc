"""The operations of `reference` on the processor: compiled by numba, threaded, vectorized."""

from wina_kernels.cpu.operations import masked_linear, sparse_linear, top_k_linear

__all__ = ["masked_linear", "sparse_linear", "top_k_linear"]
