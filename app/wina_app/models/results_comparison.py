"""Two runs side by side: the difference on every task they share, and how sure it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wina_app.models.results_rows import count_text, number
from wina_app.models.row_table import UNKNOWN, Column, TableEntry
from wina_app.quantities import percent

if TYPE_CHECKING:  # SQLAlchemy and numpy take a second to import: only the store's thread does
    from wina_core.comparison import Comparison
    from wina_core.store import MetricRow, Store


@dataclass(frozen=True)
class RunPair:
    """Two runs, named, and their comparisons."""

    first: str
    second: str
    comparisons: "tuple[Comparison, ...]"

    @property
    def unpaired(self) -> bool:
        """Whether any comparison went without the documents' own answers."""
        return any(not _is_paired(each) for each in self.comparisons if each.unit)


def compare(store: "Store", first: "MetricRow", second: "MetricRow") -> RunPair:
    """Compare the runs of two rows on all tasks that they share, in pairs where every document's answers are stored.

    Done on the store's thread. Raises WinaError for runs that were asked different things or share no task.
    """
    from wina_core.comparison import averageable, compare_runs, mean

    found = compare_runs(store, first.run, second.run, allow_unpaired=True)
    tasks = averageable(found)
    means = (mean(tasks),) if len(tasks) > 1 else ()
    return RunPair(*names_of(first, second), (*found, *means))


def names_of(first: "MetricRow", second: "MetricRow") -> tuple[str, str]:
    """Each run in one line; of how its sparsity was spread and of its settings, only what sets the two apart."""
    apart = [key for key in ("selection", "plan", "settings") if getattr(first, key) != getattr(second, key)]
    one, other = (
        ", ".join(
            part
            for part in (
                row.model,
                row.method,
                row.rotation if row.rotation != "none" else "",
                percent(row.target_sparsity),
                *(getattr(row, key) for key in apart),
            )
            if part
        )
        for row in (first, second)
    )
    return one, other


def p_text(p: float) -> str:
    """Three decimals, or as small as is said of a p."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _is_paired(row: "Comparison") -> bool:
    return row.test in ("exact McNemar", "paired bootstrap", "sign flips")


def _short(value: float) -> str:
    """Four significant digits: intervals are wider than what follows."""
    return number(float(f"{value:.4g}"))


def _number(key: str, title: str, text: Callable[[Any], str], width: int, explanation: str = "") -> Column:
    return Column(
        key,
        title,
        lambda row: getattr(row, key),
        lambda row: text(getattr(row, key)),
        numeric=True,
        width=width,
        explanation=explanation,
    )


def _interval(row: "Comparison") -> str:
    return f"{_signed(row.low)} to {_signed(row.high)}"


def _signed(value: float) -> str:
    return f"+{_short(value)}" if value > 0 else _short(value)


COLUMNS: tuple[Column, ...] = (
    Column("task", "task", lambda row: row.task, lambda row: row.task, width=16),
    Column("metric", "metric", lambda row: row.metric, lambda row: row.metric, width=11),
    _number("first", "A", _short, 8),
    _number("second", "B", _short, 8),
    _number("effect", "A \N{MINUS SIGN} B", _signed, 9, "The difference, in the metric's own unit"),
    Column(
        "interval",
        "95 % interval",
        lambda row: row.low,
        _interval,
        width=20,
        explanation="Where the difference lies with 95 % confidence; of pairs Newcombe's or of 10,000 resamples, else "
        "from both standard errors as if the runs were independent",
    ),
    _number("p", "p", p_text, 7, "Two-sided: how often chance alone would make a difference as large"),
    _number("n", "n", count_text, 7, "Documents"),
    Column(
        "paired",
        "paired",
        lambda row: "yes" if _is_paired(row) else "no",
        lambda row: ("yes" if _is_paired(row) else "no") if row.unit else UNKNOWN,
        width=6,
        explanation="Whether the same documents' answers were compared one by one",
    ),
    _number("first_only", "only A", count_text, 7, "Documents that A got right and B wrong"),
    _number("second_only", "only B", count_text, 7, "Documents that B got right and A wrong"),
    Column("test", "test", lambda row: row.test, lambda row: row.test, width=16),
)


class ComparisonEntry(TableEntry):
    """One task's comparison with what the table shows of it."""

    columns = COLUMNS

    def __init__(self, row: "Comparison") -> None:
        super().__init__((row.unit, row.task, row.metric), row)


def entries(comparisons: "Sequence[Comparison]") -> list[ComparisonEntry]:
    """One for each."""
    return [ComparisonEntry(each) for each in comparisons]
