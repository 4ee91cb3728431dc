"""Studies made from the Evaluate page's choice, and grids of their runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from wina_app.shared.method_choices import WORDS
from wina_app.style.number_format import fraction
from wina_app.style.translation import tr
from wina_core.errors import WinaError, explain
from wina_core.methods import get_method
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
    Thresholds,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec

DEMO_TASKS = ("demo_choice", "demo_ppl")
FIRST_TASKS, FIRST_DOCUMENTS, FIRST_TOKENS, FIRST_SPARSITIES = ("demo_choice",), 100, 4096, "50, 65"
"""First choice for the demo: a comparison of about a minute, like the study demo-quick."""
DENSE_COLUMN = "dense"
PLAN_COLUMN = tr("plan")


@dataclass(frozen=True)
class EvaluationChoice:
    """Return the ticked and typed choice."""

    name: str
    tasks: tuple[str, ...]
    task_folders: tuple[str, ...]
    data_folder: str
    """Folder with local data; empty for the Hub."""
    limit: int | None
    num_fewshot: int | None
    batch_size: int | Literal["auto"]
    dense_prefix: float
    fidelity: str | None
    """Source of the text for fidelity to dense; None for no fidelity."""
    fidelity_tokens: int
    calibration: str
    thresholds: Thresholds
    methods: tuple[MethodSpec, ...]
    rotations: tuple[RotationSpec, ...]
    configurations: tuple[Configuration, ...]
    """Presets with a rotation, beside every method on every rotation."""
    sparsities: str
    """Percentages as typed."""
    allocators: tuple[AllocatorSpec, ...]
    with_plan: bool
    samples: bool = False
    """Whether every document's answers are stored; it changes no number, nor does the next."""
    run_model_code: bool = False
    """Consent to run code that the model writes, for this launch only."""


def parse_sparsities(text: str) -> tuple[float, ...]:
    """Parse "25, 40 65" to (0.25, 0.4, 0.65), sorted and unique. Raise WinaError for a wrong entry."""
    values = set()
    for word in filter(None, re.split(r"[\s,;]+", text)):
        try:
            value = fraction(float(word.removesuffix("%")))
        except ValueError:
            raise WinaError(
                tr('"{word}" is not a number; list sparsities in percent, for example 25, 40, 65.', word=word)
            ) from None
        if not 0 <= value < 1:
            raise WinaError(
                tr("A sparsity of {word} % is not possible; each must be at least 0 and below 100 %.", word=word)
            )
        values.add(value)
    return tuple(sorted(values))


def build_study(choice: EvaluationChoice, source: ModelSource, plan: SparsityPlan | None) -> StudySpec:
    """Return the chosen study. Raise WinaError if something is missing or contradictory."""
    sparse = [method for method in choice.methods if method.name != DENSE.name]
    dense = [Configuration()] if len(sparse) < len(choice.methods) else []
    configurations = [
        *(Configuration(rotation=rotation, method=method) for method in sparse for rotation in choice.rotations),
        *choice.configurations,
    ]
    sparsities = parse_sparsities(choice.sparsities)
    plans = (plan,) if choice.with_plan and plan is not None else ()
    if not choice.methods and not choice.configurations:
        raise WinaError(tr("No method is chosen; tick at least one."))
    if sparse and not choice.rotations:
        raise WinaError(tr("No rotation is chosen; tick at least one, or none as a rotation."))
    if configurations and not sparsities and not plans:
        raise WinaError(tr("No sparsity is given; list some in percent or include the current plan."))
    if configurations and sparsities and not choice.allocators:
        raise WinaError(tr("No allocation is chosen; tick at least one, for example uniform."))
    for method in {each.method for each in configurations} if AllocatorSpec() in choice.allocators else ():
        for sparsity in sparsities:
            get_method(method).cell_target("down", sparsity)  # raises for a level out of its reach
    if not choice.tasks and choice.fidelity is None:
        raise WinaError(tr("Nothing would be measured; tick a task or the fidelity to dense."))
    try:
        return StudySpec(
            name=choice.name.strip() or "Evaluation",
            models=(source,),
            configurations=(*dense, *dict.fromkeys(configurations)),
            sparsities=sparsities if configurations else (),
            allocators=choice.allocators if configurations and sparsities else (AllocatorSpec(),),
            plans=plans if configurations else (),
            calibration=CalibrationSpec(
                text=CalibrationSpec().text.model_copy(update={"source": choice.calibration}),
                thresholds=choice.thresholds,
            ),
            evaluation=EvaluationSpec(
                tasks=choice.tasks,
                task_folders=choice.task_folders,
                data_folder=choice.data_folder.strip() or None,
                limit=choice.limit,
                num_fewshot=choice.num_fewshot,
                batch_size=choice.batch_size,
                dense_prefix=choice.dense_prefix,
                fidelity=None
                if choice.fidelity is None
                else TextSpec(source=choice.fidelity, tokens=choice.fidelity_tokens),
            ),
        )
    except ValidationError as error:
        raise WinaError(explain(error)) from error


@dataclass(frozen=True)
class Cell:
    """Stored part of one run, in units."""

    run: str
    units: int
    missing: int
    queued: bool = False

    @property
    def state(self) -> str:
        """Return the state with an icon, done or queued; empty for any other."""
        return "done" if self.missing == 0 else "queued" if self.queued else ""

    @property
    def text(self) -> str:
        """Return the state in words."""
        if self.missing == 0:
            return tr("stored")
        if self.queued:
            return tr("queued")
        if self.missing == self.units:
            return tr("to do")
        return tr("{stored} of {units} stored", stored=self.units - self.missing, units=self.units)


@dataclass(frozen=True)
class Grid:
    """Runs by configuration (rows) and sparsity with its allocator (columns)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @property
    def to_do(self) -> int:
        """Return the number of runs to compute."""
        return sum(cell.missing > 0 and not cell.queued for cell in self.cells.values())

    @property
    def stored(self) -> int:
        """Return the number of complete runs."""
        return sum(cell.missing == 0 for cell in self.cells.values())

    @property
    def queued(self) -> int:
        """Return the number of incomplete runs in this window's jobs."""
        return sum(cell.missing > 0 and cell.queued for cell in self.cells.values())


def make_grid(
    runs: Sequence[RunSpec],
    missing: Mapping[str, int],
    queued: frozenset[str] = frozenset(),
    rows: Mapping[str, str] | None = None,
) -> Grid:
    """Return the grid of runs in their order.

    `missing` maps a run's hash to its number of missing units, and `rows` to its row's name, if not method and
    rotation.
    """
    several = len({_spread(run) for run in runs if _gated(run)} - {""}) > 1
    cells = {}
    for run in runs:
        hash_ = run.content_hash()
        key = (rows[hash_] if rows else _row(run), _column(run, several))
        cells[key] = Cell(hash_, len(run.evaluation.units), missing.get(hash_, 0), hash_ in queued)
    names, columns = (tuple(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    return Grid(names, columns, cells)


def _row(run: RunSpec) -> str:
    selection = "" if run.method.name == DENSE.name else WORDS[run.method.selection]
    return ", ".join(filter(None, (Configuration(rotation=run.rotation, method=run.method).label, selection)))


def _gated(run: RunSpec) -> bool:
    return run.method.name != DENSE.name


def _column(run: RunSpec, several_allocators: bool) -> str:
    if not _gated(run):
        return DENSE_COLUMN
    if isinstance(run.plan, SparsityPlan):
        return f"{PLAN_COLUMN}\n{100 * run.plan.budget:.1f} %"
    target, spread = f"{100 * run.plan.sparsity:.4g} %", _spread(run)
    return f"{spread}\n{target}" if several_allocators and spread != "uniform" else target


def _spread(run: RunSpec) -> str:
    """Return the allocator's label; empty for a plan."""
    return "" if isinstance(run.plan, SparsityPlan) else run.plan.provenance


def rotation_choices(current: RotationSpec, presets: Sequence[RotationSpec]) -> list[tuple[str, RotationSpec]]:
    """Return (label, rotation) of no rotation, the current one and the presets, each once."""
    found = {NO_ROTATION.content_hash(): ("none", NO_ROTATION)}
    if not current.is_identity:
        found[current.content_hash()] = (tr("{rotation} (current)", rotation=current.label), current)
    for preset in presets:
        if not preset.is_identity:
            found.setdefault(preset.content_hash(), (preset.label, preset))
    return list(found.values())
