"""CATS (Lee et al., "CATS: Contextually-Aware Thresholding for Sparsity"): the MLP's gate activation decides."""

from typing import ClassVar

from wina_core.specs.methods.base import Method, tr


class Cats(Method):
    """z = act(W_gate x), m keeps the highest |z_i|, y = W_down (z * m * (W_up x)) (CATS, section 3).

    The mask leaves out rows of W_up and the same columns of W_down; attention and W_gate stay dense, so that the
    sparsity of a whole model is bounded by the share of W_up and W_down.
    """

    name: ClassVar[str] = "cats"
    summary: ClassVar[str] = tr("Keeps the neurons of the MLP whose gate activation is largest; attention stays dense")
    projections = ("up", "down")
    by_gate_activation: ClassVar[bool] = True
