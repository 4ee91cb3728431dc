"""A run of another database in the comparison; that database is only read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wina_app.pages.results.comparison import RunComparison, compare
from wina_app.pages.results.run_names import name_runs
from wina_app.style.translation import tr
from wina_core.analysis.results.measured import Count
from wina_core.errors import WinaError

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow, Store


@dataclass(frozen=True)
class OtherRuns:
    """The runs of another database that have results."""

    path: Path
    runs: tuple[str, ...]
    """Their hashes."""
    names: tuple[str, ...]


@dataclass(frozen=True)
class OtherRun:
    """One of them."""

    path: Path
    run: str
    beside: frozenset[str]
    """The selected runs with which it is compared."""
    is_reference: bool = False


def list_runs(path: Path) -> OtherRuns:
    """Return the runs of a database. Raises WinaError where it cannot be read or none has results."""
    from wina_core.store.copying.source import open_reader
    from wina_core.store.metric_frames import metric_rows_of

    with open_reader(path) as reader:
        rows = metric_rows_of(reader.metrics().drop_duplicates("run"))
    if not rows:
        raise WinaError(tr("{name} has no results to compare with.", name=path.name))
    return OtherRuns(path, tuple(row.run for row in rows), name_runs(rows))


def compare_across(
    store: "Store", rows: "Sequence[MetricRow]", other: OtherRun, count: Count, measure: tuple[str, str] | None
) -> RunComparison:
    """Compare runs, each given by one of its rows, and one of another database, as `compare`."""
    from wina_core.analysis.comparison.two_databases import TwoDatabases, of_other
    from wina_core.store import MetricFilter
    from wina_core.store.copying.source import open_reader

    with open_reader(other.path) as reader:
        both = TwoDatabases(store, reader)
        theirs = both.metric_rows(MetricFilter(runs=(of_other(other.run),)))[:1]
        if not theirs:
            raise WinaError(tr("{name} does not have the run any more; choose another one.", name=other.path.name))
        ordered = [*theirs, *rows] if other.is_reference else [*rows, *theirs]
        return compare(both, ordered, count, measure, other=other.path.name)
