"""Calibration: score thresholds and error curves of every gated matrix, measured on a text."""

from wina_core.compute.calibration.calibrate import calibrate
from wina_core.compute.calibration.result import ERROR_SPARSITIES, Calibration

__all__ = ["ERROR_SPARSITIES", "Calibration", "calibrate"]
