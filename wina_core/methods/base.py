"""What a method is: which inputs it gates, and how it scores them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from wina_core.models.view import LayerView

Variant = Literal["paper", "as_released"]


class Method(ABC):
    """A gate rule y = W (m * x), with a mask m per token that keeps the inputs of highest score |x_i| * c_i.

    How many are kept is the plan's business; a method only says which matrices it gates and with which c.
    """

    name: ClassVar[str]
    variants: ClassVar[tuple[Variant, ...]] = ("paper",)
    """Both where the paper's text and the authors' released code score differently."""

    def __init__(self, variant: Variant = "paper") -> None:
        self.variant = variant

    @abstractmethod
    def scales(self, layer: LayerView) -> dict[str, Tensor | None]:
        """c [n] for every projection of the layer that is gated, by canonical name; None stands for c = 1.

        Projections left out stay dense. Those that read the same input and are given the very same object share
        one mask wherever their targets agree.
        """
