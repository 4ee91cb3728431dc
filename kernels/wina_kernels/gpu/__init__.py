"""The operations of `reference` on a GPU, in Triton; under its interpreter (TRITON_INTERPRET=1) on the processor.

Three launches at most: gate and multiply in one kernel, with a sum for each share of the inputs; add the shares in a
fixed order; for top-k, find the mask first. No atomics: the same input gives the same bits in every run.
"""

try:
    import triton
except ImportError as error:
    raise ImportError(
        f"The Triton backend needs the package triton, 3.4 or newer (pip install 'triton>=3.4', Linux): {error}. "
        "The backend reference computes the same without it."
    ) from error

OLDEST = (3, 4)
if tuple(int(number) for number in triton.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(
        f"The Triton backend needs triton 3.4 or newer, and {triton.__version__} is installed: "
        "pip install --upgrade 'triton>=3.4'."
    )

# The reason for failing must come first.
from wina_kernels.gpu.products import masked_linear, sparse_linear, top_k_linear  # noqa: E402
from wina_kernels.gpu.tiles import Config  # noqa: E402

__all__ = ["Config", "masked_linear", "sparse_linear", "top_k_linear"]
