"""Runs of two databases, read as if they were in one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from wina_core.records import SampleRecord
from wina_core.specs import RunSpec
from wina_core.specs.studies import StudySpec
from wina_core.store.metric_rows import MetricRow
from wina_core.store.reader import Reader
from wina_core.store.rows import MetricFilter, StudyRow

_OTHER = "@other"


class StoredRuns(Protocol):
    """Queries on which a comparison of runs is based; a `Reader` has them."""

    def metric_rows(self, wanted: MetricFilter) -> list[MetricRow]:
        """Return the metrics of the wanted runs."""

    def samples(self, run: str, unit: str) -> list[SampleRecord]:
        """Return the documents of one unit of a run."""

    def run_spec(self, run: str) -> RunSpec | None:
        """Return the spec of a run; None for an unknown one."""

    def studies(self) -> list[StudyRow]:
        """Return all studies, the last launched first."""

    def study_spec(self, study: str) -> StudySpec | None:
        """Return the study with this hash; None for an unknown one."""


def of_other(run: str) -> str:
    """Return the name by which `TwoDatabases` knows a run of the other database."""
    return f"{run}{_OTHER}"


def is_of_other(run: str) -> bool:
    """Return whether a name is that of a run of the other database."""
    return run.endswith(_OTHER)


class TwoDatabases:
    """The runs of a database by their hashes, and those of another one by `of_other` of theirs.

    The studies are those of the first; one has runs of the other where that has the same study.
    """

    def __init__(self, first: Reader, other: Reader) -> None:
        self._first, self._other = first, other

    def metric_rows(self, wanted: MetricFilter) -> list[MetricRow]:
        """Return the metrics of the named runs."""
        here, there = _apart(wanted.runs)
        rows = self._first.metric_rows(replace(wanted, runs=here)) if here else []
        others = self._other.metric_rows(replace(wanted, runs=there)) if there else []
        return rows + [row._replace(run=of_other(row.run)) for row in others]

    def samples(self, run: str, unit: str) -> list[SampleRecord]:
        """Return the documents of one unit of a run."""
        reader, name = self._place(run)
        return reader.samples(name, unit)

    def run_spec(self, run: str) -> RunSpec | None:
        """Return the spec of a run; None for an unknown one."""
        reader, name = self._place(run)
        return reader.run_spec(name)

    def studies(self) -> list[StudyRow]:
        """Return the studies of the first database, the last launched first."""
        return self._first.studies()

    def study_spec(self, study: str) -> StudySpec | None:
        """Return the study with this hash; None for an unknown one."""
        return self._first.study_spec(study)

    def _place(self, run: str) -> tuple[Reader, str]:
        return (self._other, run.removesuffix(_OTHER)) if is_of_other(run) else (self._first, run)


def _apart(runs: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    here = tuple(run for run in runs if not is_of_other(run))
    return here, tuple(run.removesuffix(_OTHER) for run in runs if is_of_other(run))
