"""The operations of `reference` on the processor by a native library: threaded, for every stored format."""

from wina_kernels.native.operations import masked_linear, sparse_linear, top_k_linear

__all__ = ["masked_linear", "sparse_linear", "top_k_linear"]
