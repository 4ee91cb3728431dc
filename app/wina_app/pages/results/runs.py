"""Runs of the Results page: the study that it is narrowed to, the selected runs, and the names of runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal

from wina_app.shared.measured_sparsity import sparsity_name
from wina_app.shared.method_choices import WORDS
from wina_core.analysis.results.columns import BY_KEY, COLUMNS, ResultColumn, made_of
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.records.texts import number
from wina_core.specs import quantization_label
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import labelled, roles_of, specs_of
from wina_core.studies.published import display_scale, published, published_value

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

_DENSE = "dense"
_OF_A_CELL = ("run", "model_hash", "target_sparsity", "task", "metric")
"""Fields of a MetricRow that decide which published number it repeats."""


@dataclass(frozen=True)
class PublishedLine:
    """Published numbers of one method on one task and metric, in the stored units."""

    method: str
    """As printed."""
    x: tuple[float, ...]
    """Sparsities, as fractions."""
    y: tuple[float, ...]


@dataclass(frozen=True)
class Scope:
    """The runs of one study."""

    title: str
    paper: str
    """`StudySpec.paper`."""
    configurations: Mapping[str, str]
    """Run's hash: the name of its configuration."""
    models: Mapping[str, tuple[str, str]]
    """Model's hash: (the paper's model whose numbers are shown, by default its role or location; quantization)."""

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The table's, with the paper's numbers where the study repeats it."""
        # Cached: columns made anew are unequal by their functions, and every cell would be made anew with them.
        at = 1 + BY_KEY["value"]
        return (*COLUMNS[:at], self._paper_column, *COLUMNS[at:]) if self.paper else COLUMNS

    @property
    def published_measures(self) -> frozenset[tuple[str, str]]:
        """(task, metric) of all published numbers of this study."""
        return frozenset((cell.task, cell.metric) for cell in published(self.paper)) if self.paper else frozenset()

    @property
    def _paper_column(self) -> ResultColumn:
        return ResultColumn(
            "paper",
            "paper",
            made=lambda metrics: made_of(metrics, _OF_A_CELL, self._published),
            numeric=True,
            width=8,
            explanation="The number that the paper published for the same cell, of the model that the study names",
            text=number,
        )

    def paper_value(self, row: "MetricRow") -> float | None:
        """Return the published number of a row's cell, in the stored units; None where the paper has none."""
        return self._published(row.run, row.model_hash, row.target_sparsity, row.task, row.metric)

    def _published(self, run: str, model_hash: str, sparsity: float, task: str, metric: str) -> float | None:
        configuration, model = self.configurations.get(run), self.models.get(model_hash)
        if configuration is None or model is None:
            return None
        role, quantization = model
        value = published_value(self.paper, role, configuration, sparsity, task, metric, quantization)
        return None if value is None else value / display_scale(metric)

    def published_lines(self, model_hash: str, task: str, metric: str) -> tuple[PublishedLine, ...]:
        """Return the published lines of one model's task, by method; the dense model's is one point at 0."""
        if not self.paper or model_hash not in self.models:
            return ()
        role, quantization = self.models[model_hash]
        lines: dict[str, list[tuple[float, float]]] = {}
        for cell in published(self.paper):
            if (cell.model, cell.quantization, cell.task, cell.metric) == (role, quantization, task, metric):
                lines.setdefault(cell.method, []).append((cell.sparsity, cell.value / display_scale(metric)))
        return tuple(
            PublishedLine(method, *(tuple(axis) for axis in zip(*sorted(points), strict=True)))
            for method, points in lines.items()
        )


def scope_of(study: StudySpec) -> Scope:
    """Return the scope of a study whose roles are mapped. Raises WinaError as `expand`."""
    runs = labelled(study) if study.models else ()
    roles = roles_of(study)
    return Scope(
        title=study.title or study.name,
        paper=study.paper,
        configurations={run.label.run: run.label.configuration for run in runs},
        models={
            spec.model.content_hash(): (
                study.published_model(roles[spec.model.content_hash()]),
                quantization_label(spec.model.quantization),
            )
            for spec in specs_of(runs)
        },
    )


def is_dense(line: PublishedLine) -> bool:
    return line.method == _DENSE


class RunSelection(QObject):
    """Hashes of runs in the order in which they were selected; the first one is what the others are compared with.

    Whoever shows the selection may answer `changed` by selecting the same runs again: that changes nothing, so nothing
    is emitted and no signal goes round in a circle.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.runs: tuple[str, ...] = ()
        """The selected runs, the reference first."""

    def select(self, runs: Sequence[str]) -> None:
        """Select these runs; those that were selected before keep their places."""
        unique = dict.fromkeys(runs)
        remaining = [run for run in self.runs if run in unique]
        self._set((*remaining, *(run for run in unique if run not in self.runs)))

    def toggle(self, runs: Sequence[str]) -> None:
        """Add these runs, or take them away where all of them are selected."""
        if set(runs) <= set(self.runs):
            self._set(tuple(run for run in self.runs if run not in runs))
        else:
            self.select((*self.runs, *runs))

    def make_reference(self, run: str) -> None:
        if run in self.runs:
            self._set((run, *(other for other in self.runs if other != run)))

    def retain(self, passing: Collection[str]) -> None:
        self._set(tuple(run for run in self.runs if run in passing))

    def _set(self, runs: tuple[str, ...]) -> None:
        if runs != self.runs:
            self.runs = runs
            self.changed.emit()


_APART = ("plan", "settings")
"""Fields that are named only where they differ."""
_HASH_DIGITS = 6


def name_runs(
    rows: "Sequence[MetricRow]", count: Count = DEFAULT_COUNT, *, with_sparsity: bool = True
) -> tuple[str, ...]:
    """Return the names of runs, each given by one row: method, rotation, selection, measured and target sparsity.

    Model, plan and settings are named where they differ. Runs whose names are equal all the same get the beginning of
    their hash.
    """
    several_models = len({row.model_hash for row in rows}) > 1
    sparse = [row for row in rows if row.method != "dense"]
    differing = [key for key in _APART if len({getattr(row, key) for row in sparse}) > 1]
    names = [
        ", ".join(
            text
            for text in (
                row.model if several_models else "",
                row.method,
                row.rotation if row.rotation != "none" else "",
                cast(dict[str, str], WORDS).get(row.selection, row.selection) if row.method != "dense" else "",
                sparsity_name(row, count) if with_sparsity and row.method != "dense" else "",
                *(getattr(row, key) for key in differing if row.method != "dense"),
            )
            if text
        )
        for row in rows
    ]
    return tuple(
        f"{name}, {row.run[:_HASH_DIGITS]}" if names.count(name) > 1 else name
        for name, row in zip(names, rows, strict=True)
    )
