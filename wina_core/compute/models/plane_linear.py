"""A linear layer whose inputs are read with as many planes of their weights as they are worth."""

from torch import Tensor
from torch.nn import functional
from wina_kernels.planes import PlaneWeight

from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.uncompiled import uncompiled
from wina_core.compute.models.view import Rows


class PlaneLinear(QuantizedLinear):
    """y = W x + b with W [m, n] in planes: without gates all of them are read."""

    weight_t: PlaneWeight

    @uncompiled
    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        return functional.linear(input, self.weight, self.bias)

    def graded(self, x: Tensor, levels: Tensor, rows: Rows, bias: Tensor | None) -> Tensor:
        """Return y [..., rows] of x [..., n], of which each input is read in its first `levels` planes."""
        y = self.weight_t.product(x, levels)[..., rows]
        return y if bias is None else y + bias
