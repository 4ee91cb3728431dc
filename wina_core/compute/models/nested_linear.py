"""A linear layer whose inputs are read with all bits of their weights or with the upper 4 alone."""

from torch import Tensor, nn
from torch.nn import functional
from wina_kernels.nested import NestedBits, NestedWeight, fine_factor, nest

from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.view import Rows


class NestedLinear(QuantizedLinear):
    """y = W x + b with W [m, n] nested: without gates all bits are read."""

    weight_t: NestedWeight
    factor: float
    """The score from which all bits are read, over that from which an input is kept; see `fine_factor`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        return functional.linear(input, self.weight, self.bias)

    def graded(self, kept: Tensor, fine: Tensor, rows: Rows, bias: Tensor | None) -> Tensor:
        """Return y [..., rows] of gated inputs [..., n], with all bits where `fine`, bool [..., n], and else 4."""
        coarse = self.weight_t.dequantize(coarse=True).to(kept.dtype).t()[rows]
        y = functional.linear(kept * ~fine, coarse, bias)
        return y + functional.linear(kept * fine, self.weight[rows])


def nested(linear: nn.Linear, bits: NestedBits, group: int) -> NestedLinear:
    """Quantize a linear layer to nested codes."""
    weight_t = linear.weight.detach().t().float()
    weight = nest(weight_t, bits, group)
    made = NestedLinear(linear, weight)
    made.factor = fine_factor(weight, weight_t)
    return made
