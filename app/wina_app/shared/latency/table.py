"""Tables of timed products and of timed decoding."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from wina_app.shared.latency.chart import dense_name, instability
from wina_app.widgets.table_model import Column, Key, TableEntry, Value
from wina_core.records.texts import UNKNOWN, moment
from wina_core.specs import DENSE

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import DecodeRow, LatencyRow


def _plain(key: str, title: str, width: int, explanation: str = "") -> Column:
    def value(row: Any) -> str:
        return str(row.cell(key))

    return Column(key, title, value, value, width=width, explanation=explanation)


def _figure(
    key: str, title: str, width: int, explanation: str = "", *, scale: float = 1.0, form: str = ".4g"
) -> Column:
    """Return a column of a number, `scale` times the stored one."""

    def value(row: Any) -> Value:
        number: float = row.cell(key)
        # Rounded for exports: 100 * 0.29 is 28.999999999999996.
        return number if scale == 1.0 else round(scale * number, 10)

    return Column(key, title, value, lambda row: format(value(row), form), True, width, explanation)


def _selection(row: Any) -> str:
    point = row.record.point
    return "" if point.method == DENSE.name else str(point.selection)


def _known(key: str, title: str, width: int, explanation: str, scale: float = 1.0) -> Column:
    """Return a column of a number that may be unknown."""

    def value(row: Any) -> Value:
        number = row.cell(key)
        return None if number is None else scale * number

    def text(row: Any) -> str:
        number = value(row)
        return UNKNOWN if number is None else f"{number:.4g}"

    return Column(key, title, value, text, True, width, explanation)


_TARGET = _figure("sparsity", "target %", 8, "Fraction of the inputs to be dropped", scale=100.0, form=".1f")
_TURNS = _figure("repetitions", "turns", 6, "Measurements behind the median", form=",d")
_WHEN = Column("when", "when", lambda row: moment(row.recorded), lambda row: moment(row.recorded)[:16], width=15)
_SPEEDUP = "How many times as fast as PyTorch's dense product, the median over the turns"
_BEST_SPEEDUP = Column(
    "best_speedup",
    "vs best dense",
    lambda row: row.best_speedup,
    lambda row: "\N{EN DASH}" if row.best_speedup is None else f"{row.best_speedup:.3g}",
    numeric=True,
    width=12,
    explanation=(
        "How many times as fast as the fastest dense product of this shape, batch and dtype, quantized ones and our "
        "kernel at 0 % included; a dash where only PyTorch's was timed"
    ),
)


def _worst(row: Any) -> float:
    return max(row.record.spread, row.record.dense_spread, row.drift)


_STABLE = Column(
    "stable",
    "stable",
    lambda row: "yes" if row.stable else f"no: {_worst(row):.2f}",
    lambda row: "yes" if row.stable else f"\N{WARNING SIGN} {_worst(row):.2f}",
    width=8,
    explanation=(
        "Unstable where runs disagree by more than 20 %: p90 is more than 1.2 times p10, of the point or of dense "
        "decoding beside it; or where dense beside it is more than 1.2 times off its median over all points"
    ),
    tip=instability,
)

PRODUCT_COLUMNS: tuple[Column, ...] = (
    Column(
        "shape",
        "shape",
        lambda row: row.record.point.shape.label,
        lambda row: row.record.point.shape.label,
        width=11,
        explanation="Outputs times inputs of the weight",
    ),
    _figure("batch", "batch", 6, "Rows of x", form=",d"),
    _plain("dtype", "dtype", 8),
    _plain("method", "method", 7),
    _plain(
        "backend",
        "backend",
        9,
        "Implementation of the product; torch is PyTorch's dense product, int8 and int4 are our kernels",
    ),
    _figure("measured_sparsity", "measured %", 10, "Counted from the masks", scale=100.0, form=".1f"),
    _figure("speedup", "vs PyTorch dense", 14, _SPEEDUP, form=".3g"),
    _BEST_SPEEDUP,
    _STABLE,
    _figure("median_ms", "median ms", 9),
    _TARGET,
    _figure("gigabytes_per_second", "GB/s", 6, "Bytes that must be read, in the median time"),
    _figure(
        "roofline",
        "of bandwidth %",
        13,
        "The same against the bandwidth that the memory reached when the sweep began",
        scale=100.0,
        form=".1f",
    ),
    Column(
        "best_dense",
        "best dense",
        lambda row: row.best_dense,
        lambda row: row.best_dense and dense_name(row.best_dense),
        width=17,
        explanation="The fastest dense product of this shape, batch and dtype",
    ),
    _plain("op", "op", 14, "What reads a matrix of this shape"),
    Column(
        "selection",
        "selection",
        _selection,
        _selection,
        width=9,
        explanation="threshold: a given value; topk: exactly k inputs of each row; none where the product is dense",
    ),
    _figure("p10_ms", "p10 ms", 8, "A tenth of the turns was faster"),
    _figure("p90_ms", "p90 ms", 8, "A tenth of the turns was slower"),
    _TURNS,
    _WHEN,
)
DECODE_COLUMNS: tuple[Column, ...] = (
    _plain("model", "model", 14),
    _plain("rotation", "rotation", 16),
    _plain("method", "method", 8),
    _plain("selection", "selection", 9),
    _figure(
        "measured_sparsity",
        "measured %",
        11,
        "Dropped fraction of the gated weights, as the method counts it",
        scale=100.0,
        form=".1f",
    ),
    _TARGET,
    _figure("batch", "batch", 6, "Sequences at once", form=",d"),
    _figure("prompt_tokens", "prompt", 7, "Tokens before those that are timed", form=",d"),
    _figure(
        "timed_tokens",
        "new",
        6,
        "Tokens that are timed; fewer than requested where the time of the point ended",
        form=",d",
    ),
    _figure("tokens_per_second", "tokens/s", 9, "The median over the turns"),
    _figure("p10", "p10 tokens/s", 12, "A tenth of the turns was slower"),
    _figure("p90", "p90 tokens/s", 12, "A tenth of the turns was faster"),
    _figure("dense_tokens_per_second", "dense tokens/s", 14, "Of the model without a rotation and without gates"),
    _figure("speedup", "vs PyTorch dense", 14, "How many times as fast as the dense model", form=".3g"),
    _BEST_SPEEDUP,
    _STABLE,
    _known("prefill_tokens_per_second", "prompt tokens/s", 13, "Tokens of the prompts, until the first new token"),
    _known("dense_prefill_tokens_per_second", "dense prompt", 12, "The same of the dense model"),
    _known("held_bytes", "held MB", 8, "Weights, norms and low-rank parts of the gated model", 1e-6),
    _known("peak_bytes", "peak MB", 8, "Largest memory while it decoded: of the process, or of the GPU", 1e-6),
    Column(
        "decoder",
        "decoder",
        lambda row: row.record.decoder,
        lambda row: row.record.decoder,
        width=14,
        explanation="compiled: one native call per token; else what decoded instead, and why",
    ),
    _figure(
        "turns",
        "turns",
        6,
        "Measurements behind the median; fewer than requested where the time of the point ended",
        form=",d",
    ),
    _WHEN,
)


class TimedEntry(TableEntry, ABC):
    """A timed row. What is compared in one plot has the same `subject` and the same `load`."""

    @property
    def machine(self) -> tuple[str, str]:
        """(device, hardware) on which it was timed."""
        return self.row.machine

    @property
    @abstractmethod
    def subject(self) -> tuple[Any, str]:
        """The timed thing, and its name on the page."""

    @property
    @abstractmethod
    def load(self) -> tuple[Any, str]:
        """The amount at once, and its name on the page."""


class ProductEntry(TimedEntry):
    """A timed product."""

    columns = PRODUCT_COLUMNS
    row: "LatencyRow"

    @property
    def subject(self) -> tuple[Any, str]:
        point = self.row.record.point
        return (point.outputs, point.inputs), f"{point.shape.label} ({self.row.record.op})"

    @property
    def load(self) -> tuple[Any, str]:
        batch = self.row.record.point.batch
        return batch, f"{batch:,}"


class DecodeEntry(TimedEntry):
    """A timed model."""

    columns = DECODE_COLUMNS
    row: "DecodeRow"

    @property
    def subject(self) -> tuple[Any, str]:
        return self.row.model, self.row.model

    @property
    def load(self) -> tuple[Any, str]:
        """The tokens before, those timed, and the sequences."""
        point = self.row.record.point
        load = point.prompt_tokens, point.new_tokens, point.batch
        text = f"{point.new_tokens:,} after {point.prompt_tokens:,}"
        return load, text if point.batch == 1 else f"{text}, batch {point.batch}"


_Entry = TypeVar("_Entry", bound=TimedEntry)


def make_entries(rows: Iterable[Any], previous: Mapping[Key, _Entry], kind: type[_Entry]) -> dict[Key, _Entry]:
    """Return the latest entry of each point of each machine, over all versions of the libraries.

    Entries that are known and unchanged are used again. Done on the store's thread.
    """
    latest: dict[Key, Any] = {}
    for row in rows:
        key = (*row.machine, row.point)
        if key not in latest or latest[key].recorded <= row.recorded:
            latest[key] = row
    return {
        key: previous[key] if key in previous and previous[key].row == row else kind(key, row)
        for key, row in latest.items()
    }
