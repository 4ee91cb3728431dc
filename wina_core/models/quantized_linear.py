"""A linear layer whose weight is held in 8 or 4 bits, and stands wherever a plain one did."""

import logging
from collections.abc import Callable, Mapping

from torch import Tensor, nn
from transformers import utils


class QuantizedLinear(nn.Linear):
    """y = W x + b with W [m, n] quantized. What is stored are buffers, so that the model's memory counts them.

    `weight` dequantizes anew each time it is asked for, in the dtype of the model: nothing is kept of it, so whoever
    needs it twice keeps it. The forward is the quantizing library's own.
    """

    def __init__(
        self,
        linear: nn.Linear,
        stored: Mapping[str, Tensor],
        product: Callable[[Tensor], Tensor],
        dequantize: Callable[[], Tensor],
    ) -> None:
        """`product` is W x for x [..., n] from the `stored` tensors, `dequantize` W itself; the bias is `linear`'s."""
        nn.Module.__init__(self)  # nn.Linear's own would make a weight of full size
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = linear.bias
        for name, tensor in stored.items():
            self.register_buffer(name, tensor, persistent=False)
        self._product = product
        self._dequantize = dequantize

    @property
    def weight(self) -> Tensor:  # type: ignore[override]  # a parameter in nn.Linear
        """W [m, n] dequantized."""
        return self._dequantize()

    def forward(self, input: Tensor) -> Tensor:
        """x [..., n] -> y [..., m]."""
        y = self._product(input)
        return y if self.bias is None else y + self.bias


def quiet_torchao() -> None:
    """Silence what torchao says when it is imported, about extensions for accelerators that are not here.

    transformers imports it with the first model, wherever it is installed, so every command would begin with that.
    """
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)


def leave_out_hqq() -> None:
    """Let transformers believe that hqq is not installed; to be called before the first model class is imported.

    Its key-value caches import hqq wherever it is installed, and that torch's compiler: 40 MB and most of a second of
    every process, for a kind of cache that nothing here makes. Whoever imports hqq itself gets it nevertheless.
    """
    for module in (utils, utils.import_utils):
        module.is_hqq_available = lambda *_: False


def quantized_weights(model: nn.Module) -> int:
    """How many weights of the model are held quantized; they are none of its parameters."""
    linears = (module for module in model.modules() if isinstance(module, QuantizedLinear))
    return sum(linear.in_features * linear.out_features for linear in linears)
