"""State of a study: contents, stored parts, and measurements to do."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.jobs.job_entry import JobEntry
from wina_app.shared.run_grid import Grid, read_grid
from wina_app.style.number_format import duration, listed, plural
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.specs import (
    FIDELITY,
    ROLE,
    Configuration,
    ModelSource,
    RunSpec,
    TaskSpec,
    printed_quantization,
    quantization_label,
)
from wina_core.specs.latency import LatencySpec
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import labelled, specs_of, unresolved
from wina_core.studies.run_labels import LabelledRun
from wina_core.studies.tasks.check_runs import check_runs

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

KINDS = {
    "paper": "The paper's tables and figures",
    "real": "Real models",
    "demo": "Demo",
    "own": "Own studies",
}
"""Kinds of studies, in the order of the list."""
_DOT = "  \N{MIDDLE DOT}  "


@dataclass(frozen=True)
class Expansion:
    """Runs and points of a study; expanding takes longer than reading the store."""

    runs: tuple[RunSpec, ...]
    labelled: tuple[LabelledRun, ...]
    """Runs with their labels, as saved."""
    labels: Mapping[str, str]
    """Result of `label_runs`."""
    points: int
    """Points of the sweep."""
    hashes: frozenset[str]
    """Hashes of the points, under any backend of "auto"."""


@dataclass(frozen=True)
class StudyState:
    """Stored part of a study, in measurements: units of runs and points of a sweep."""

    total: int = 0
    missing: tuple[PendingRun, ...] = ()
    """Runs with their missing units."""
    timed: Mapping[str, tuple[str, ...]] | None = None
    """Stored points of the sweep by `Environment.key`; None without a sweep."""
    points_missing: int = 0
    needs: tuple[str, ...] = ()
    """Roles without a model; their runs are counted for the published weights."""
    needs_data: bool = False
    """True if its texts lie in a data folder and none is chosen; its runs are counted as not stored."""
    trouble: str = ""
    """Reason why its runs are unknown, or cannot be computed."""
    grid: Grid | None = None

    @property
    def to_do(self) -> int:
        return sum(len(run.units) for run in self.missing) + self.points_missing

    @property
    def stored(self) -> int:
        return self.total - self.to_do

    @property
    def complete(self) -> bool:
        return self.total > 0 and self.to_do == 0

    @property
    def request(self) -> str:
        """Return what to choose before it can run, for example "a model for A"; empty for nothing."""
        model, folder = f"a model for {listed(self.needs)}", "a data folder"
        if self.needs and self.needs_data:
            return f"{model}, and {folder}"
        return model if self.needs else folder if self.needs_data else ""

    @property
    def word(self) -> str:
        """Return the state with an icon, done or failed; empty for any other."""
        return "failed" if self.trouble else "done" if self.complete else ""

    @property
    def text(self) -> str:
        if self.trouble:
            return "cannot run here"
        if self.needs or self.needs_data:
            return f"needs {listed([*self.needs, *(['a data folder'] if self.needs_data else [])])}"
        if self.stored == 0:
            return f"runs here, {_measurements(self.total)}"
        return _stored(self)


def expanded(study: StudySpec) -> Expansion:
    """Expand a study whose roles are mapped, reading its files. Raises WinaError as `expand`."""
    return expansion_of(study, labelled(study) if study.models else ())


def outline_of(study: StudySpec) -> Expansion:
    """Expand a study without reading its files: its runs match no stored ones."""
    return expansion_of(study, unresolved(study))


def expansion_of(study: StudySpec, runs: tuple[LabelledRun, ...]) -> Expansion:
    sweep = study.latency
    points, hashes = (len(sweep.points()), sweep.hashes()) if sweep else (0, frozenset())
    return Expansion(specs_of(runs), runs, label_runs(study, runs), points, hashes)


def read_state(
    expansion: Expansion, store: "Store", environment: str, queued: Collection[str], samples: bool
) -> StudyState:
    """Read a study's state; `environment` is this machine's key, `queued` has hashes of queued runs."""
    runs = expansion.runs
    missing = tuple(store.pending(runs, samples)) if runs else ()
    timed = store.measured_points(expansion.hashes) if expansion.points else None
    timed_points = len((timed or {}).get(environment, ()))
    return StudyState(
        total=sum(len(run.evaluation.units) for run in runs) + expansion.points,
        missing=missing,
        timed=timed,
        points_missing=max(0, expansion.points - timed_points),
        trouble=_trouble(missing),
        grid=read_grid(store, runs, missing, frozenset(queued), expansion.labels) if runs else None,
    )


def _trouble(missing: Sequence[PendingRun]) -> str:
    try:
        check_runs(missing)
    except WinaError as error:
        return str(error)
    return ""


def label_runs(study: StudySpec, runs: Iterable[LabelledRun]) -> dict[str, str]:
    """Return the label of each run's configuration, and of its model if several, by the run's hash."""
    several = len({model.location for model in study.models}) > 1
    labels = {}
    for spec, label in runs:
        quantized = printed_quantization(quantization_label(spec.model.quantization))
        labels[label.run] = ", ".join(filter(None, (label.model if several else "", quantized, label.configuration)))
    return labels


def _allocators(study: StudySpec) -> Iterator[str]:
    for configuration in study.configurations:
        yield from (allocator.label for allocator in study.allocators_of(configuration))


def facts(study: StudySpec) -> list[tuple[str, str]]:
    """Return (caption, text) of each fact of a study."""
    evaluation, limit = study.evaluation, study.evaluation.limit
    rows = [
        ("Models", _DOT.join(dict.fromkeys(_model(model) for model in study.models))),
        ("Configurations", _DOT.join(_configuration(configuration) for configuration in study.configurations)),
        ("Sparsities", _percentages(study.sparsities)),
        ("Allocation", _DOT.join(dict.fromkeys(_allocators(study))) if study.sparsities else ""),
        ("Tasks", _DOT.join(_task(task) for task in evaluation.tasks)),
        ("Also measured", _DOT.join(_extra_units(study))),
        ("Documents", f"at most {limit:,} of each task" if limit else ""),
        ("Local data", evaluation.data_folder or ""),
        ("Timed products", _sweep(study.latency) if study.latency else ""),
    ]
    return [(caption, text) for caption, text in rows if text]


def _model(model: ModelSource) -> str:
    name, bits = model.location.removeprefix(ROLE), printed_quantization(quantization_label(model.quantization))
    return f"{name} in {bits}" if bits else name


def _configuration(configuration: Configuration) -> str:
    sparsities = f" ({_percentages(configuration.sparsities)})" if configuration.sparsities else ""
    return (configuration.name or configuration.label) + sparsities


def _percentages(sparsities: Sequence[float]) -> str:
    return f"{', '.join(f'{100 * sparsity:g}' for sparsity in sparsities)} %" if sparsities else ""


def _task(task: str | TaskSpec) -> str:
    if isinstance(task, str):
        return task
    details = [
        f"{task.num_fewshot}-shot" if task.num_fewshot is not None else "",
        plural(task.limit, "documents", "document") if task.limit else "",
        f"from number {task.first:,} on" if task.first else "",
    ]
    text = ", ".join(filter(None, details))
    return f"{task.name} ({text})" if text else task.name


def _extra_units(study: StudySpec) -> list[str]:
    evaluation, units = study.evaluation, list[str]()
    if not study.models:
        return units
    if evaluation.synthetic:
        return [f"errors of random networks, {evaluation.synthetic.label}"]
    if FIDELITY in evaluation.units and evaluation.fidelity:
        units.append(f"KL and perplexity on {evaluation.fidelity.label}")
    if evaluation.original:
        units.append(f"KL from the original on {evaluation.original.label}")
    if evaluation.cost_context:
        positions = plural(evaluation.cost_context, "positions", "position")
        units.append(f"cost of a token at {positions} of context")
    return units


def _sweep(spec: LatencySpec) -> str:
    texts = [
        plural(len(spec.shapes), "shapes", "shape"),
        f"batch {', '.join(map(str, spec.batches))}",
        _percentages(spec.sparsities),
        ", ".join(spec.methods),
    ]
    return _DOT.join(texts)


@dataclass(frozen=True)
class StudyProgress:
    """Progress of a study's active jobs."""

    fraction: float | None
    """Fraction of all measurements done; None if unknown."""
    text: str
    paused: bool
    """True while all jobs are paused."""
    changing: bool
    """True while pausing or cancelling is pending."""


def progress(state: StudyState, entries: Sequence[JobEntry]) -> StudyProgress | None:
    """Return the progress of a study with these active jobs; None without jobs.

    A running measurement counts by its job's progress, so that the bar moves in between.
    """
    if not entries:
        return None
    started = [entry for entry in entries if entry.started is not None]
    # Stored units are part of the jobs' fractions and of the state, and must not be counted twice.
    going = sum((entry.fraction or 0.0) * _size(entry) - entry.units_stored for entry in started)
    done = min(state.total, state.stored + max(0.0, going))
    phases = {entry.phase for entry in entries}
    texts = [_stored(state)]
    etas = [entry.eta_seconds for entry in started if entry.eta_seconds is not None]
    if etas:
        texts.append(f"{duration(max(etas))} left")
    if len(phases) == 1 and phases <= {"pausing", "paused", "cancelling"}:
        texts += phases
    elif not started:
        texts.append("waiting for the engine")
    elif len(started) < len(entries):
        texts.append(f"{plural(len(entries) - len(started), 'jobs', 'job')} waiting")
    texts += [entry.metric for entry in started if entry.metric][:1]
    return StudyProgress(
        fraction=done / state.total if state.total else None,
        text=_DOT.join(texts),
        paused=phases == {"paused"},
        changing=phases <= {"pausing", "cancelling"},
    )


def _size(entry: JobEntry) -> int:
    runs = getattr(entry.job, "runs", ())  # a sweep has none; the engine counts its points
    return sum(len(run.units) for run in runs) if runs else int(entry.total or 0)


def launch_text(state: StudyState, runs: Sequence[PendingRun]) -> str:
    """Return what a launch queued and left out, in words: `runs` were queued."""
    units = sum(len(run.units) for run in runs)
    elsewhere = sum(len(run.units) for run in state.missing) - units
    queued = [_measurements(units)] if units else []
    queued += [plural(state.points_missing, "timed products", "timed product")] if state.points_missing else []
    sentences = [f"Queued {listed(queued)}." if queued else "Nothing is left to queue."]
    if state.stored:
        sentences.append(
            plural(
                state.stored, "measurements are stored already and reused.", "measurement is stored already and reused."
            )
        )
    if elsewhere:
        sentences.append(
            plural(elsewhere, "measurements are queued by another job.", "measurement is queued by another job.")
        )
    return " ".join(sentences)


def estimate_text(seconds: Mapping[str, Sequence[float | None]], state: StudyState) -> str:
    """Return the expected time of missing measurements, given by unit, and what it leaves out, in words."""
    times = [time for unit in seconds.values() for time in unit]
    known = [time for time in times if time is not None]
    unknown = len(times) - len(known)
    sentences = []
    if known:
        sentences.append(f"About {duration(sum(known))} for {_measurements(len(known))}, as stored ones took here.")
    if unknown:
        sentences.append(f"{_measurements(unknown)} of unknown time: none like them was measured here.")
    if state.points_missing:
        sentences.append("Timed products need extra time.")
    return " ".join(sentences)


def _measurements(number: int) -> str:
    return plural(number, "measurements", "measurement")


def _stored(state: StudyState) -> str:
    return f"{state.stored:,} of {_measurements(state.total)} stored"
