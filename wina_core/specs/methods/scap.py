"""SCAP: the distance from the inputs' mode decides.

Chua, Pan and Jain, "Post-Training Statistical Calibration for Higher Activation Sparsity" (2024).
"""

from typing import ClassVar

from wina_core.specs.methods.base import Method, MethodChoice, Variant, tr

_MLP = ("gate", "up", "down")


class Scap(Method):
    """y = W (m * (x - mode)) + W mode, m keeping the highest |x_i - mode_i| (SCAP, its mode-centring).

    W mode is a bias at run time; with modes of 0 the rule is TEAL's. `paper`: matrices of the MLP alone, each with one
    mode for all its inputs, the peak of their kernel density estimate on the calibration text. `as_released`: the same
    with modes of 0, the released settings for Llama-2 and Mistral (IntelLabs/SCAP, README and calibrate.py). `own`: all
    seven matrices, with a mode for each input (see `calibration.centres`).
    """

    name: ClassVar[str] = "scap"
    summary: ClassVar[str] = tr("Keeps the inputs farthest from their most frequent value, which the dropped ones take")
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released", "own")

    def __init__(self, choice: MethodChoice) -> None:
        super().__init__(choice)
        if self.variant == "own":
            self.centring = "inputs"
        else:
            self.projections = _MLP
            self.centring = "matrix" if self.variant == "paper" else "none"
