"""Calibration: from a text to the score thresholds and error curves of every gated matrix."""

from wina_core.compute.calibration.calibrate import calibrate
from wina_core.compute.calibration.result import ERROR_SPARSITIES, Calibration

__all__ = ["ERROR_SPARSITIES", "Calibration", "calibrate"]
