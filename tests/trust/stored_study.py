"""A study's measurements as they lie in its database, and what must hold of them."""

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

_UNITS = "units JOIN runs ON runs.id = run_id"
TABLES = {
    "runs": "SELECT hash, status, unit_count, error FROM runs",
    "units": f"SELECT hash, unit, gated_sparsity, net_sparsity FROM {_UNITS}",
    "metrics": f"SELECT hash, unit, metrics.* FROM metrics JOIN {_UNITS} WHERE units.id = unit_id",
    "samples": f"SELECT hash, unit, samples.* FROM samples JOIN {_UNITS} WHERE units.id = unit_id",
    "layer_stats": f"SELECT hash, unit, layer_stats.* FROM layer_stats JOIN {_UNITS} WHERE units.id = unit_id",
}
Results = dict[str, list[tuple[Any, ...]]]
Units = dict[tuple[str, str], tuple[Any, ...]]


class StoredStudy:
    """The database of a folder, read beside whoever writes it."""

    def __init__(self, home: Path) -> None:
        self.file = home / "results.sqlite"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, without the columns of numbers that only name rows; none without a database."""
        if not self.file.exists():
            return []
        with closing(sqlite3.connect(self.file, timeout=120)) as database:
            try:
                cursor = database.execute(query)
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # killed before they were made
                    return []
                raise
            kept = [not column[0].endswith("id") for column in cursor.description]
            return sorted((tuple(itertools.compress(row, kept)) for row in cursor), key=repr)

    def units(self) -> Units:
        """Return the time and the numbers of each stored measurement."""
        found: dict[tuple[str, str], list[Any]] = {
            (run, unit): [finished]
            for run, unit, finished in self.rows(f"SELECT hash, unit, units.finished FROM {_UNITS}")
        }
        for run, unit, *numbers in self.rows(TABLES["metrics"]):
            found.setdefault((run, unit), []).append(tuple(numbers))
        return {key: tuple(values) for key, values in found.items()}

    def doubled(self) -> int:
        """Count the measurements that are stored more than once."""
        return len(self.rows(f"SELECT hash, unit FROM {_UNITS} GROUP BY hash, unit HAVING count(*) > 1"))

    def damages(self) -> int:
        """Count what SQLite finds wrong in the file."""
        found = [row for row in self.rows("PRAGMA integrity_check") if row != ("ok",)]
        return len(found) + len(self.rows("PRAGMA foreign_key_check"))

    def unfinished(self) -> int:
        """Count the runs that are marked as waiting or as being computed."""
        return len(self.rows("SELECT hash, status FROM runs WHERE status IN ('queued', 'running')"))

    def running(self) -> bool:
        """Return whether a run is marked as being computed."""
        return bool(self.rows("SELECT hash, status FROM runs WHERE status = 'running'"))

    def is_done(self) -> bool:
        """Return whether every run is marked as done, and there are runs."""
        return {row[-1] for row in self.rows("SELECT hash, status FROM runs")} == {"done"}

    def results(self) -> Results:
        """Return all that was measured."""
        return {table: self.rows(query) for table, query in TABLES.items()}
