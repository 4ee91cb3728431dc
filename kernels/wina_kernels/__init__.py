"""Products with a sparsely read weight, and the arithmetic of gating, on tensors alone. `reference` defines the
operations; the functions here use the fastest way for a device, shape and sparsity."""

from wina_kernels.dispatch import masked_linear, sparse_linear, top_k_linear

__all__ = ["masked_linear", "sparse_linear", "top_k_linear"]
