"""Estimates of a study's duration."""

from typing import Literal

from wina_core.records.base import Record


class UnitEstimate(Record):
    """The estimated duration of one measurement of one run."""

    unit: str
    seconds: float
    basis: Literal["stored", "probe"]
    """The source: an equal stored measurement, or a few documents timed now."""


Stage = Literal["loading", "rotating", "quantizing", "calibrating", "allocating", "the original"]


class StageEstimate(Record):
    """The estimated duration of one kind of preparation, of all models and methods together."""

    stage: Stage
    seconds: float
    basis: Literal["stored", "trial"]
    """The source: earlier computations, or at least partly a timed pass of the model and a rough count of passes."""


class EstimateRecord(Record):
    """The estimated duration of a study's missing measurements, and of what is prepared for them."""

    seconds: float
    """Of the measurements."""
    units: int
    """Missing measurements."""
    estimates: tuple[UnitEstimate, ...]
    """One for each distinct unit."""
    preparations: tuple[StageEstimate, ...] | None = None
    """None if they are not known: of a model that memory does not hold."""

    @property
    def preparing_seconds(self) -> float:
        """Return the time of the known preparations."""
        return sum(each.seconds for each in self.preparations or ())
