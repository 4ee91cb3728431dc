"""Estimates of a study's duration."""

from typing import Literal

from wina_core.records.base import Record


class UnitEstimate(Record):
    """The estimated duration of one measurement of one run."""

    unit: str
    seconds: float
    basis: Literal["stored", "probe"]
    """The source: an equal stored measurement, or a few documents timed now."""


ProductKind = Literal["rotation", "quantization", "calibration", "allocation"]
"""Kind of what is computed once before measurements, and cached on disk."""


class PreparationEstimate(Record):
    """The duration of one kind of preparation, of all models and methods together, by earlier computations."""

    kind: ProductKind
    seconds: float
    """Of those that were computed here before."""
    unknown: int = 0
    """Number of those that were never computed here."""


class EstimateRecord(Record):
    """The estimated duration of a study's missing measurements, and of what is prepared for them."""

    seconds: float
    """Of the measurements."""
    units: int
    """Missing measurements."""
    estimates: tuple[UnitEstimate, ...]
    """One for each distinct unit."""
    preparations: tuple[PreparationEstimate, ...] = ()
    """Those that are not on disk, without loading."""

    @property
    def preparing_seconds(self) -> float:
        """Return the time of the known preparations."""
        return sum(preparation.seconds for preparation in self.preparations)

    @property
    def unknown_preparations(self) -> int:
        """Return the number of preparations of unknown time."""
        return sum(preparation.unknown for preparation in self.preparations)
