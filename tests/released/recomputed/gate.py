"""TEAL's gate rule, the base of the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from tests.released.recomputed.decoder import Cell, Output, Weights
from tests.released.recomputed.selections import kept_paper, kept_released, no_prefix, top_k


@dataclass
class Gate:
    """TEAL's rule, y = W (m * x) + b with a mask m by |x|, and the base of the others.

    Call an instance as the `gate` of `forward`. It keeps the masks of its last call for each cell in `masks`, bool
    [rows, tokens, n]; tokens of the dense prefix have masks of ones.

    Attributes
    ----------
    weights
        The model that is gated.
    targets
        Sparsity s of each gated cell; cells that are absent or have 0 stay dense.
    thresholds
        Thresholds by cell: an input is kept when its score exceeds it. None keeps the highest scores instead.
    released
        True for the released number of kept inputs, False for the paper's.
    prefix
        Number of dense first tokens of a sequence of T tokens.
    """

    weights: Weights
    targets: Mapping[Cell, float]
    thresholds: Mapping[Cell, float] | None = None
    released: bool = False
    prefix: Callable[[int], int] = no_prefix
    masks: dict[Cell, Tensor] = field(default_factory=dict)

    def gates(self, name: str) -> bool:  # noqa: ARG002 - others gate some matrices only
        """Return whether the method gates the matrices of that name."""
        return True

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:  # noqa: ARG002 - others read the matrix
        """Return the score of every input, of the shape of x."""
        return x.abs()

    def kept(self, layer: int, name: str, n: int) -> int:
        """Return the number of inputs that top k keeps."""
        return (kept_released if self.released else kept_paper)(n, self.targets[layer, name])

    def mask(self, layer: int, name: str, score: Tensor) -> Tensor:
        """Return the mask of a score [rows, tokens, n], ones over the dense prefix."""
        if self.thresholds is None:
            mask = top_k(score, self.kept(layer, name, score.shape[-1]))
        else:
            mask = score > self.thresholds[layer, name]
        mask[:, : self.prefix(score.shape[1])] = True
        self.masks[layer, name] = mask
        return mask

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:  # noqa: ARG002 - likewise
        """Return what the matrix reads, or computes, instead of x."""
        return x * mask

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Gate the input of one matrix."""
        if not self.gates(name) or not self.targets.get((layer, name)):
            return x
        return self.replaced(layer, name, x, self.mask(layer, name, self.score(layer, name, x)))
