"""Estimates of a study's duration."""

from typing import Literal

from wina_core.records.base import Record


class UnitEstimate(Record):
    """The estimated duration of one measurement of one run."""

    unit: str
    seconds: float
    basis: Literal["stored", "probe"]
    """The source: an equal stored measurement, or a few documents timed now."""


class EstimateRecord(Record):
    """The estimated duration of a study's missing measurements, without rotation, calibration and allocation."""

    seconds: float
    units: int
    """Missing measurements."""
    estimates: tuple[UnitEstimate, ...]
    """One for each distinct unit."""
