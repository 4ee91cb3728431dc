"""A linear layer with weights of 8 or 4 bits, in the place of a plain one."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from wina_kernels import sparse_linear
from wina_kernels.dense import MOST_ROWS
from wina_kernels.weights import FLOATS, QuantizedWeight


class QuantizedLinear(nn.Linear):
    """y = W x + b with W [m, n] quantized, stored in buffers, so that the model's memory counts them.

    A few tokens are multiplied by a kernel that dequantizes on the way and skips weights of inputs that are 0. For more
    tokens, and on every access, `weight` is dequantized anew and not kept.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor | None

    def __init__(self, linear: nn.Linear, weight_t: QuantizedWeight) -> None:
        """Replace `linear` by `weight_t`, its W^T; dtype when dequantized and bias are `linear`'s."""
        nn.Module.__init__(self)  # nn.Linear's own would make a weight of full size
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        for name in ("codes", "scale", "zero"):
            self.register_buffer(name, getattr(weight_t, name), persistent=False)
        self._group, self._bits, self._dtype = weight_t.group, weight_t.bits, linear.weight.dtype

    @property
    def weight_t(self) -> QuantizedWeight:
        """W^T as stored."""
        return QuantizedWeight(self.codes, self.scale, self.zero, self._group, self._bits)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # a parameter in nn.Linear
        """W [m, n] dequantized, in the dtype of the model."""
        return self.weight_t.dequantize().to(self._dtype).t()

    def forward(self, input: Tensor) -> Tensor:
        """Return y [..., m] for x [..., n]."""
        few = 0 < input.numel() <= MOST_ROWS * self.in_features
        if few and input.dtype in FLOATS and not (torch.is_grad_enabled() and input.requires_grad):
            y = sparse_linear(input, self.weight_t, None, 0.0)
            return y if self.bias is None else y + self.bias
        return functional.linear(input, self.weight, self.bias)


def quantized_weights(model: nn.Module) -> int:
    """Return the number of quantized weights of the model, which are not among its parameters."""
    linears = (module for module in model.modules() if isinstance(module, QuantizedLinear))
    return sum(linear.in_features * linear.out_features for linear in linears)
