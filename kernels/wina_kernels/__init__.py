"""Products with a sparsely read weight, and the arithmetic of gating, on tensors alone: no model, no Qt, nothing of
wina_core. `reference` defines the operations; here they come by the fastest way for a device, shape and sparsity."""

from wina_kernels.dispatch import masked_linear, sparse_linear, top_k_linear

__all__ = ["masked_linear", "sparse_linear", "top_k_linear"]
