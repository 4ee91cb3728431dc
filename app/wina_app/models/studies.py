"""What the Studies page tells of a study: what it consists of, how much of it is stored, what is left to compute."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.models.evaluation_grid import Grid, make_grid
from wina_app.models.job_list import JobEntry
from wina_app.quantities import counted, duration
from wina_core.engine.protocol import PendingRun
from wina_core.errors import WinaError
from wina_core.latency_specs import LatencySpec
from wina_core.records import EstimateRecord
from wina_core.run_labels import LabelledRun
from wina_core.specs import DEVIATION, ROLE, Arm, RunSpec, TaskSpec
from wina_core.study import labelled, specs_of
from wina_core.study_specs import StudySpec
from wina_core.task_names import check_names

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

KINDS = {"paper": "The paper's tables and figures", "demo": "Demo", "own": "Yours"}
"""Of the gallery's studies, in the order of the list."""
_DOT = "  \N{MIDDLE DOT}  "


@dataclass(frozen=True)
class Expansion:
    """A study's runs and points, which take longer to make than to look up in the store."""

    runs: tuple[RunSpec, ...]
    labelled: tuple[LabelledRun, ...]
    """The runs with what the study calls them, as they are saved."""
    labels: Mapping[str, str]
    """`label_runs`."""
    points: int
    """Of the sweep."""
    hashes: frozenset[str]
    """Of the points, whatever "auto" stands for."""


@dataclass(frozen=True)
class StudyState:
    """How much of a study is stored here, counted in measurements: units of runs and points of a sweep."""

    total: int = 0
    missing: tuple[PendingRun, ...] = ()
    """Runs with the units that they lack."""
    timed: Mapping[str, tuple[str, ...]] | None = None
    """`Environment.key`: stored points of the sweep; None where there is none."""
    points_missing: int = 0
    needs: tuple[str, ...] = ()
    """Roles without a model here; the rest is as if their published weights stood for them."""
    trouble: str = ""
    """Why its runs cannot be told, or those that are missing not be computed."""
    grid: Grid | None = None

    @property
    def to_do(self) -> int:
        """Measurements that are not stored."""
        return sum(len(run.units) for run in self.missing) + self.points_missing

    @property
    def stored(self) -> int:
        """Measurements that are."""
        return self.total - self.to_do

    @property
    def complete(self) -> bool:
        """Whether nothing is left to compute."""
        return self.total > 0 and self.to_do == 0

    @property
    def word(self) -> str:
        """One of the states that have an icon, done or failed; empty for any other."""
        return "failed" if self.trouble else "done" if self.complete else ""

    @property
    def text(self) -> str:
        """In words, for the list."""
        if self.trouble:
            return "cannot run here"
        if self.needs:
            return f"needs {', '.join(self.needs)}"
        if self.stored == 0:
            return f"runs here, {counted(self.total, 'measurement')}"
        return f"{self.stored:,} of {counted(self.total, 'measurement')} stored"


def expansion_of(study: StudySpec) -> Expansion:
    """Of a study whose roles are all mapped, files read. Raises WinaError for what `expand` refuses."""
    runs, sweep = labelled(study) if study.models else (), study.latency
    points, hashes = (len(sweep.points()), sweep.hashes()) if sweep else (0, frozenset())
    return Expansion(specs_of(runs), runs, label_runs(study, runs), points, hashes)


def read_state(
    expansion: Expansion, store: "Store", environment: str, queued: Collection[str], samples: bool
) -> StudyState:
    """What the store has of a study; `environment` is the key of this machine's, and `queued` has the hashes of the
    runs that jobs will compute."""
    runs = expansion.runs
    missing = tuple(store.pending(runs, samples)) if runs else ()
    timed = store.measured_points(expansion.hashes) if expansion.points else None
    here = len((timed or {}).get(environment, ()))
    lacking = {run.spec.content_hash(): len(run.units) for run in missing}
    return StudyState(
        total=sum(len(run.evaluation.units) for run in runs) + expansion.points,
        missing=missing,
        timed=timed,
        points_missing=max(0, expansion.points - here),
        trouble=_trouble(missing),
        grid=make_grid(runs, lacking, frozenset(queued), expansion.labels) if runs else None,
    )


def _trouble(missing: Sequence[PendingRun]) -> str:
    try:
        check_names(missing)
    except WinaError as error:
        return str(error)
    return ""


def label_runs(study: StudySpec, runs: Iterable[LabelledRun]) -> dict[str, str]:
    """Run's hash: what the study calls its arm, and where there are several models its model."""
    several = len({model.location for model in study.models}) > 1
    labels = {}
    for spec, label in runs:
        quantized = spec.model.quantization.upper() if spec.model.quantization != "none" else ""
        labels[label.run] = ", ".join(filter(None, (label.model if several else "", quantized, label.arm)))
    return labels


def name_arms(runs: Iterable[LabelledRun]) -> dict[str, str]:
    """Run's hash: what the study calls its arm."""
    return {run.label.run: run.label.arm for run in runs}


# ---- what a study consists of ------------------------------------------------------------------------------------


def facts(study: StudySpec) -> list[tuple[str, str]]:
    """(caption, text) of what a study asks for."""
    evaluation = study.evaluation
    found = [
        ("Models", _DOT.join(dict.fromkeys(_model(model.location, model.quantization) for model in study.models))),
        ("Arms", _DOT.join(_arm(arm) for arm in study.arms)),
        ("Sparsities", _percentages(study.sparsities)),
        ("Spread", _DOT.join(allocator.label for allocator in study.allocators) if study.sparsities else ""),
        ("Tasks", _DOT.join(_task(task) for task in evaluation.tasks)),
        ("Also measured", _DOT.join(_own_units(study))),
        ("Documents", f"at most {evaluation.limit:,} of each task" if evaluation.limit else ""),
        ("Local data", evaluation.data_folder or ""),
        ("Timed products", _sweep(study.latency) if study.latency else ""),
    ]
    return [(caption, text) for caption, text in found if text]


def _model(location: str, quantization: str) -> str:
    name = location.removeprefix(ROLE)
    return name if quantization == "none" else f"{name} in {quantization.upper()}"


def _arm(arm: Arm) -> str:
    own = f" ({_percentages(arm.sparsities)})" if arm.sparsities else ""
    return (arm.name or arm.label) + own


def _percentages(sparsities: Sequence[float]) -> str:
    return f"{', '.join(f'{100 * each:g}' for each in sparsities)} %" if sparsities else ""


def _task(task: str | TaskSpec) -> str:
    if isinstance(task, str):
        return task
    details = [
        f"{task.num_fewshot}-shot" if task.num_fewshot is not None else "",
        counted(task.limit, "document") if task.limit else "",
    ]
    told = ", ".join(filter(None, details))
    return f"{task.name} ({told})" if told else task.name


def _own_units(study: StudySpec) -> list[str]:
    evaluation, own = study.evaluation, []
    if not study.models:
        return own
    if evaluation.synthetic:
        return [f"errors of random networks, {evaluation.synthetic.label}"]
    if DEVIATION in evaluation.units and evaluation.deviation:
        own.append(f"KL and perplexity on {evaluation.deviation.label}")
    if evaluation.cost_context:
        own.append(f"cost of a token at {counted(evaluation.cost_context, 'position')} of context")
    return own


def _sweep(spec: LatencySpec) -> str:
    parts = [
        counted(len(spec.shapes), "shape"),
        f"batch {', '.join(map(str, spec.batches))}",
        _percentages(spec.sparsities),
        ", ".join(spec.methods),
    ]
    return _DOT.join(parts)


# ---- how far its jobs are ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyProgress:
    """The jobs of a study that have not ended, together."""

    fraction: float | None
    """Of all measurements of the study; None while unknown."""
    text: str
    paused: bool
    """Whether all of them are held, so that they can go on."""
    changing: bool
    """Whether what was asked for last, to be held or to end, has not come to pass yet."""


def progress(state: StudyState, entries: Sequence[JobEntry]) -> StudyProgress | None:
    """How far a study is whose active jobs are `entries`; None when there are none.

    A measurement that is being taken counts by the part of its job that is done, so that the bar moves in between.
    """
    if not entries:
        return None
    begun = [entry for entry in entries if entry.started is not None]
    going = sum((entry.fraction or 0.0) * _size(entry) - entry.units_stored for entry in begun)
    done = min(state.total, state.stored + max(0.0, going))
    states = {entry.state for entry in entries}
    parts = [f"{state.stored:,} of {counted(state.total, 'measurement')} stored"]
    etas = [entry.eta_seconds for entry in begun if entry.eta_seconds is not None]
    if etas:
        parts.append(f"{duration(max(etas))} left")
    if len(states) == 1 and states <= {"pausing", "paused", "cancelling"}:
        parts += states
    elif not begun:
        parts.append("waiting for the engine")
    elif len(begun) < len(entries):
        parts.append(f"{counted(len(entries) - len(begun), 'job')} to follow")
    parts += [entry.metric for entry in begun if entry.metric][:1]
    return StudyProgress(
        fraction=done / state.total if state.total else None,
        text=_DOT.join(parts),
        paused=states == {"paused"},
        changing=states <= {"pausing", "cancelling"},
    )


def _size(entry: JobEntry) -> int:
    """Measurements that a job was asked for."""
    runs = getattr(entry.job, "runs", ())
    return sum(len(run.units) for run in runs) if runs else int(entry.total or 0)


# ---- in sentences ------------------------------------------------------------------------------------------------


def launch_text(state: StudyState, runs: Sequence[PendingRun]) -> str:
    """What a launch queued, and what it left out; `runs` are those that were queued."""
    units = sum(len(run.units) for run in runs)
    elsewhere = sum(len(run.units) for run in state.missing) - units
    queued = [counted(units, "measurement")] if units else []
    queued += [counted(state.points_missing, "timed product")] if state.points_missing else []
    sentences = [f"Queued {' and '.join(queued)}." if queued else "Nothing is left to queue."]
    if state.stored:
        sentences.append(f"{_are(state.stored)} stored already and reused.")
    if elsewhere:
        sentences.append(f"{_are(elsewhere)} queued by another job.")
    return " ".join(sentences)


def estimate_text(record: EstimateRecord, state: StudyState) -> str:
    """How long the missing measurements should take, how that is known, and what is left out."""
    probed = sum(estimate.basis == "probe" for estimate in record.estimates)
    known = len(record.estimates) - probed
    sources = [
        f"{counted(probed, 'kind')} of them timed on a few documents" if probed else "",
        f"{known:,} taken from stored ones" if known else "",
    ]
    how = f" ({', '.join(filter(None, sources))})" if probed or known else ""
    left_out = "Rotating, calibrating and allocating come on top"
    left_out += ", and the timed products." if state.points_missing else "."
    return f"About {duration(record.seconds)} for {counted(record.units, 'measurement')}{how}. {left_out}"


def _are(number: int) -> str:
    return f"{counted(number, 'measurement')} {'is' if number == 1 else 'are'}"
