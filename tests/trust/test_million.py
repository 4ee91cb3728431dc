"""The large check on a small database."""

from pathlib import Path

from tests.trust.million import make_database
from wina_core.cli.export import ExportedRows
from wina_core.store import Store


def test_the_database_holds_as_many_different_numbers_as_it_says(tmp_path: Path) -> None:
    assert make_database(tmp_path / "results.sqlite", runs=4, tasks=3) == 4 * 3 * 2
    with Store(tmp_path / "results.sqlite") as store:
        rows = list(ExportedRows(store.metrics()))
        assert rows == [(*row, row.warning) for row in store.metric_rows()]
    assert len({row[11] for row in rows}) == len(rows)
