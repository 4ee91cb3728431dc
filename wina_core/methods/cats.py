"""CATS (Lee et al., "CATS: Contextually-Aware Thresholding for Sparsity"): the MLP's gate activation decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wina_core.errors import WinaError
from wina_core.methods.base import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from wina_core.compute.models.view import LayerView


class Cats(Method):
    """z = act(W_gate x), m keeps the highest |z_i|, y = W_down (z * m * (W_up x)) (CATS, section 3).

    The mask leaves out rows of W_up and the same columns of W_down; attention and W_gate stay dense, so that the
    sparsity of a whole model is bounded by the share of W_up and W_down.
    """

    name: ClassVar[str] = "cats"
    projections = ("up", "down")
    by_gate_activation: ClassVar[bool] = True

    def scales(self, layer: LayerView, rho: Mapping[str, float] | None = None) -> dict[str, Tensor | None]:
        """c = 1 for the pair; WinaError for an MLP without a gate."""
        if "gate" not in layer.projections:
            raise WinaError("CATS masks by the MLP's gate activation, which this model does not have; choose teal.")
        return super().scales(layer, rho)
