"""Study that the Results page is narrowed to: its runs by their names in it, and the paper's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wina_app.style.translation import tr
from wina_core.analysis.results.columns import BY_KEY, COLUMNS, ResultColumn, made_of
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
    """Model's hash: the paper's model whose numbers are shown, by default its role or location; its quantization."""

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The table's, with the paper's numbers where the study repeats it."""
        at = 1 + BY_KEY["value"]
        return (*COLUMNS[:at], self._paper_column, *COLUMNS[at:]) if self.paper else COLUMNS

    @property
    def published_measures(self) -> frozenset[tuple[str, str]]:
        """(task, metric) of everything that the paper has of this study."""
        return frozenset((cell.task, cell.metric) for cell in published(self.paper)) if self.paper else frozenset()

    @property
    def _paper_column(self) -> ResultColumn:
        return ResultColumn(
            "paper",
            "paper",
            made=lambda metrics: made_of(metrics, _OF_A_CELL, self._published),
            numeric=True,
            width=8,
            explanation=tr("The number that the paper published for the same cell, of the model that the study names"),
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
    """Return whether a line is that of the full model."""
    return line.method == _DENSE
