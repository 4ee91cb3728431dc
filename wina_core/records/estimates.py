"""How long a study should take."""

from typing import Literal

from wina_core.records.base import Record


class UnitEstimate(Record):
    """How long one measurement of one run should take."""

    unit: str
    seconds: float
    basis: Literal["stored", "probe"]
    """Taken from an equal measurement that is stored, or from a few documents timed now."""


class EstimateRecord(Record):
    """How long a study's missing measurements should take, without rotating, calibrating and allocating."""

    seconds: float
    units: int
    """Measurements that are missing."""
    estimates: tuple[UnitEstimate, ...]
    """One for each distinct unit."""
