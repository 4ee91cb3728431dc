"""Gate and product for a weight that reads token after token, without reading a number back from the device.

So a CUDA graph can capture a decoding step: kept inputs are counted on the device, also in every replay, and the
division of work is settled when the weight is prepared, or tuned for a shape by measuring.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wina_kernels.gpu.operands import bits_of
from wina_kernels.gpu.products import masked_linear, masked_sums, sparse_linear, sparse_sums, top_k_masks
from wina_kernels.gpu.tiles import MOST_SHARES, MOST_STEP_SHARES, Config, candidates, case_of, default, shipped
from wina_kernels.tuning import USUAL_SPARSITY, fastest


class Prepared:
    """Gate and product for W^T [n, m], tuned for the fraction of inputs that will probably be dropped.

    scale: factors of the inputs' scores, float32 [n], or None for ones.
    """

    def __init__(self, weight_t: Tensor, scale: Tensor | None, sparsity: float) -> None:
        self.counts = _counts(weight_t)
        """(kept, seen) inputs; their sums over all lines count."""
        self._weight_t = weight_t
        self._scale = None if scale is None else scale.detach().contiguous()
        self._config = _fastest(weight_t, self._scale, sparsity) if weight_t.is_cuda else None

    def above(self, x: Tensor, threshold: float, fewest: int = 0) -> tuple[Tensor, None]:
        """Return y [..., m] of the inputs of x [..., n] with |x_i| * scale_i > threshold, but of at least the `fewest`
        highest of each row, 1 to 8 rows."""
        if fewest:
            mask = top_k_masks(x, self._scale, fewest, threshold=threshold, counts=self.counts)
            return masked_linear(x, self._weight_t, mask), None
        # Measured for one row; more rows have tiles of their own.
        config = self._config if x.numel() == x.shape[-1] else None
        return sparse_linear(x, self._weight_t, self._scale, threshold, config=config, counts=self.counts), None

    def top_k(self, x: Tensor, keep: int) -> tuple[Tensor, None]:
        """Return y [..., m] of each row's `keep` highest scores in x [..., n], the lower index first among equals."""
        return masked_linear(x, self._weight_t, top_k_masks(x, self._scale, keep, counts=self.counts)), None


class PreparedSums:
    """Gate and product of one row whose shares stay apart, as the next kernel adds them.

    W^T [n, m] is a float tensor; scale: float32 [n], or None for ones; counts: int64 [any, 2], or None for new ones.
    """

    def __init__(self, weight_t: Tensor, scale: Tensor | None, counts: Tensor | None) -> None:
        self.counts = _counts(weight_t) if counts is None else counts
        """(kept, seen) inputs; their sums over all lines count."""
        self._weight_t = weight_t
        self._scale = None if scale is None else scale.detach().contiguous()
        if weight_t.is_cuda:
            self._config = _fastest(weight_t, self._scale, USUAL_SPARSITY, MOST_STEP_SHARES)
        else:
            n, m = weight_t.shape
            # Times under the interpreter say nothing about a GPU.
            self._config = default(n, m, 1, bits_of(weight_t), MOST_STEP_SHARES)

    def above(self, threshold: float, fewest: int = 0) -> Callable[[Tensor], Tensor]:
        """Return a function of x [n]: the sums [shares, m] of its inputs with |x_i| * scale_i > threshold, but of at
        least the `fewest` highest."""
        if fewest:
            return self._of_highest(fewest, threshold)
        return lambda x: sparse_sums(x, self._weight_t, self._scale, threshold, self._config, self.counts)

    def top_k(self, keep: int) -> Callable[[Tensor], Tensor]:
        """Return a function from x [n] to the sums [shares, m] of its `keep` highest scores, as `Prepared.top_k`."""
        return self._of_highest(keep)

    def _of_highest(self, keep: int, threshold: float | None = None) -> Callable[[Tensor], Tensor]:
        def sums(x: Tensor) -> Tensor:
            mask = top_k_masks(x, self._scale, keep, threshold=threshold, counts=self.counts)
            return masked_sums(x, self._weight_t, mask, self._config)

        return sums


def _counts(weight_t: Tensor) -> Tensor:
    # A line for each share, so that the programs of `sparse_linear` add without atomics.
    return torch.zeros(MOST_SHARES, 2, dtype=torch.int64, device=weight_t.device)


def _fastest(weight_t: Tensor, scale: Tensor | None, sparsity: float, most_shares: int = MOST_SHARES) -> Config:
    """Return the division of work for one row, from the table that ships or else measured.

    It is measured once for a device, shape, dtype and twentieth of sparsity.
    """
    n, m = weight_t.shape
    bits = bits_of(weight_t)
    dropped = round(20 * sparsity) / 20
    known = shipped(case_of(weight_t, 1, most_shares), dropped)
    if known is not None:
        return known
    configs = {config.label: config for config in candidates(n, m, 1, bits, most_shares)}

    def ways() -> dict[str, Callable[[], object]]:
        kept = torch.rand(1, n, generator=torch.Generator().manual_seed(0)) >= dropped
        # Zeros and ones: the threshold 0 drops the zeros, whatever the scale.
        x = kept.to(weight_t)

        def way(config: Config) -> Callable[[], object]:
            return lambda: sparse_linear(x, weight_t, scale, 0.0, config=config)

        return {name: way(config) for name, config in configs.items()}

    case = f"division: {m} x {n}, {bits} bits, {dropped:.2f} dropped, of {'; '.join(configs)}"
    return configs[fastest(weight_t.device, case, ways)]
