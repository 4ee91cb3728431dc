"""Table of stored metrics, of categorical columns: what is made of a cell is made once per category, of which a
hundred thousand rows have few."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wina_core.analysis.results.columns import ResultColumn, Value
from wina_core.analysis.results.measures import Floats, Measures, error_at, find_measures, fixed_texts, value_text
from wina_core.files.tables import BATCH
from wina_core.records import noise_of

if TYPE_CHECKING:  # pandas takes seconds to import; the window's first paint does without
    import pandas as pd

Codes = NDArray[Any]
Mask = NDArray[np.bool_]
Key = tuple[str, ...]


class TableColumn:
    """One categorical column: `codes[row]` is the index of the row's cell in `categories`, -1 of an absent one, for
    which the last category, None, is appended."""

    def __init__(self, column: ResultColumn, codes: Codes, categories: Sequence[Any]) -> None:
        self.column, self.codes = column, codes
        self.categories = [*categories, None] if len(codes) and codes.min() < 0 else list(categories)

    @cached_property
    def folded(self) -> "pd.Series[str]":
        """Texts of the categories without case, to search in."""
        import pandas as pd

        # Kept as Arrow's strings: a million of Python's would take five times the memory.
        return pd.Series([text.casefold() for text in self._texts()], dtype="string[pyarrow]")

    def _texts(self) -> Iterable[str]:
        return map(self.column.text, self.categories)

    @cached_property
    def values(self) -> list[Value]:
        """Values of the categories to sort and to export; None for unknown ones."""
        return [self.column.value(cell) for cell in self.categories]

    @cached_property
    def numbers(self) -> Floats:
        """Values of a numeric column's categories; NaN for unknown ones."""
        return np.array([math.nan if value is None else value for value in self.values], np.float64)

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """Ranks of the categories by ascending value, equal ones alike; -1 for unknown ones."""
        import pandas as pd

        words = [None if value is None else str(value) for value in self.values] if not self.column.numeric else None
        values = pd.Series(self.numbers if words is None else words)
        return np.asarray(values.rank(method="dense").fillna(0), np.int32) - 1

    def rows_of(self, categories: Mask) -> Mask:
        return categories[self.codes]

    def containing(self, text: str) -> Mask:
        """Return a mask of the categories whose text contains this casefolded text."""
        return self.folded.str.contains(text, regex=False).to_numpy(np.bool_)

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text that all of these rows share, in any case of its letters, or None."""
        import pandas as pd

        present = pd.unique(self.codes[rows])
        alike = self.folded.take(present).nunique() == 1
        return self.column.text(self.categories[present[0]]) if alike else None

    def text(self, row: int) -> str:
        return self.column.text(self.categories[self.codes[row]])

    def value(self, row: int) -> Value:
        return self.values[self.codes[row]]

    def values_of(self, rows: Codes) -> Sequence[Value]:
        values = self.values
        return [values[code] for code in self.codes[rows].tolist()]

    def tip(self, row: int) -> str:
        """Return a cell's warning, or else its text, which the table may cut off."""
        cell = self.categories[self.codes[row]]
        return (self.column.tip(cell) if self.column.tip else "") or self.column.text(cell)

    def take(self, rows: Codes) -> "TableColumn":
        return TableColumn(self.column, self.codes[rows], [cell for cell in self.categories if cell is not None])


class NumberColumn(TableColumn):
    """Column of measured numbers, in which each row is a category of its own."""

    def __init__(self, column: ResultColumn, numbers: Floats) -> None:
        """`numbers` are float64 [rows], NaN for unknown ones."""
        self.column, self.numbers, self.codes = column, numbers, np.arange(len(numbers), dtype=np.int32)

    @cached_property
    def categories(self) -> Sequence[Value]:  # type: ignore[override]
        return [None if number != number else number for number in self.numbers.tolist()]  # NaN differs from itself

    @property
    def values(self) -> Sequence[Value]:  # type: ignore[override]
        return self.categories

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text that all of these rows share, or None."""
        # Numbers between the least and the greatest read alike if these two do.
        numbers = self.numbers[rows]
        valid = numbers[~np.isnan(numbers)]
        if 0 < len(valid) < len(numbers):
            return None
        ends = [float(valid.min()), float(valid.max())] if len(valid) else [None]
        texts = set(map(self.column.text, ends))
        return texts.pop() if len(texts) == 1 else None


class RoundedColumn(NumberColumn):
    """Column of values or of their standard errors, each rounded to the decimals of its measure."""

    def __init__(self, column: ResultColumn, table: "MetricResults") -> None:
        assert table.metrics is not None
        super().__init__(column, table.metrics[column.source].to_numpy())
        self._table = table
        self._stderrs = table.metrics["stderr"].to_numpy()

    @cached_property
    def _decimals(self) -> Codes:
        measures = self._table.measures
        return np.array([measure.decimals for measure in measures.all], np.int8)[measures.codes]

    def _texts(self) -> Iterable[str]:
        return fixed_texts(self.numbers, self._decimals, 0 if self.column.source == "stderr" else 1, self.text)

    def text(self, row: int) -> str:
        number, decimals = float(self.numbers[row]), int(self._decimals[row])
        if self.column.source == "stderr":
            return error_at(number, decimals)
        measures = self._table.measures
        if abs(number) < noise_of(measures.all[int(measures.codes[row])].metric):
            number = 0.0
        stderr = float(self._stderrs[row])
        return value_text(number, decimals, None if math.isnan(stderr) else stderr)

    def common_text(self, rows: Mask | slice) -> str | None:
        """Return the text that all of these rows share if they are one number of one measure, or None."""
        if super().common_text(rows) is None or len(set(self._table.measures.codes[rows].tolist())) > 1:
            return None
        return self.text(int(self.codes[rows][0]))


class TableRows:
    """Rows of a table as tuples of values, made a batch at a time: a million of them take gigabytes."""

    def __init__(self, columns: Sequence[TableColumn], rows: Codes) -> None:
        self._columns, self._rows = columns, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        for start in range(0, len(self), BATCH):
            rows = self._rows[start : start + BATCH]
            yield from zip(*(column.values_of(rows) for column in self._columns), strict=True)


class MetricResults:
    """Stored metrics with the cells that a table shows of them; threads may share it, so it is never changed."""

    def __init__(
        self,
        metrics: "pd.DataFrame | None" = None,
        details: "pd.DataFrame | None" = None,
        columns: tuple[ResultColumn, ...] = (),
        source: "pd.DataFrame | None" = None,
    ) -> None:
        """Take metrics as `Store.metrics` has them and, by the hashes of their runs, `details_frame`. Lines of runs
        without details, which were deleted while they were read, are left out. An empty table needs neither.

        `source` is the frame that the metrics were chosen from, by which `is_of` knows them again.
        """
        self.columns, self._source = columns, metrics if source is None else source
        if metrics is not None and details is not None:
            has_details = metrics["run"].isin(details.index)
            metrics = metrics if has_details.all() else metrics[has_details].reset_index(drop=True)
        self.metrics, self.details = metrics, details
        self.cells: tuple[TableColumn, ...] = tuple(map(self._cells, columns))

    def __len__(self) -> int:
        return 0 if self.metrics is None else len(self.metrics)

    def __getitem__(self, key: str) -> TableColumn:
        return self._by_key[key]

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    @cached_property
    def _by_key(self) -> dict[str, TableColumn]:
        return {cells.column.key: cells for cells in self.cells}

    @cached_property
    def measures(self) -> Measures:
        return Measures((), np.zeros(0, np.int16)) if self.metrics is None else find_measures(self.metrics)

    def rows_of_runs(self, runs: Collection[str]) -> NDArray[np.intp]:
        metrics = self.metrics
        return np.zeros(0, np.intp) if metrics is None else np.flatnonzero(metrics["run"].isin(list(runs)).to_numpy())

    def is_of(self, source: "pd.DataFrame", details: "pd.DataFrame", columns: tuple[ResultColumn, ...]) -> bool:
        same = self._source is source and columns == self.columns
        return same and self.details is not None and self.details.equals(details)

    def key(self, row: int) -> Key:
        """Return the row's stable key: run, unit, task, metric."""
        return tuple(categories[codes[row]] for codes, categories in self._keys)

    @cached_property
    def _keys(self) -> list[tuple[Codes, list[str]]]:
        if self.metrics is None:
            return []
        fields = (self.metrics[field].array for field in ("run", "unit", "task", "metric"))
        return [(field.codes, field.categories.tolist()) for field in fields]

    def prepare(self) -> None:
        """Make at once what searching and sorting need: for a million rows it takes a second."""
        _ = self._keys
        for cells in self.cells:
            _ = cells.folded, cells.ranks

    @cached_property
    def _details_of_rows(self) -> NDArray[np.intp]:
        """The index of each row's run among the details."""
        assert self.metrics is not None
        assert self.details is not None
        runs = self.metrics["run"].array
        # By the few categories instead of the many rows.
        return self.details.index.get_indexer(runs.categories)[runs.codes]

    def _cells(self, column: ResultColumn) -> TableColumn:
        if self.metrics is None or self.details is None:
            return TableColumn(column, np.zeros(0, np.int8), ())
        if column.of_run:
            cells = self.details[column.source].array.take(self._details_of_rows)
            return TableColumn(column, cells.codes, cells.categories.tolist())
        if column.source and self.metrics[column.source].dtype == "float64":
            return RoundedColumn(column, self)
        return categorical(column, self.metrics)


def categorical(column: ResultColumn, frame: "pd.DataFrame") -> TableColumn:
    """Return a column of what it shows of a frame with the fields of MetricRow."""
    import pandas as pd

    cells = pd.Categorical(frame[column.source]) if column.made is None else column.made(frame)
    return TableColumn(column, cells.codes, cells.categories.tolist())
