"""What the Studies page tells of a study: what it consists of, how much of it is stored, what is left to compute."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.jobs.job_list import JobEntry
from wina_app.shared.run_grid import Grid, make_grid
from wina_app.style.number_format import duration, listed
from wina_app.style.translation import tr
from wina_core.engine.protocol import PendingRun
from wina_core.errors import WinaError
from wina_core.records import EstimateRecord
from wina_core.specs import DEVIATION, ROLE, Arm, RunSpec, TaskSpec
from wina_core.specs.latency import LatencySpec
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import labelled, specs_of
from wina_core.studies.run_labels import LabelledRun
from wina_core.tasks.check_names import check_names

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

KINDS = {"paper": tr("The paper's tables and figures"), "demo": tr("Demo"), "own": tr("Yours")}
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
            return tr("cannot run here")
        if self.needs:
            return tr("needs {roles}", roles=", ".join(self.needs))
        if self.stored == 0:
            return tr("runs here, {measurements}", measurements=_measurements(self.total))
        return _stored(self)


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


# ---- what a study consists of ------------------------------------------------------------------------------------


def facts(study: StudySpec) -> list[tuple[str, str]]:
    """(caption, text) of what a study asks for."""
    evaluation, limit = study.evaluation, study.evaluation.limit
    found = [
        (tr("Models"), _DOT.join(dict.fromkeys(_model(model.location, model.quantization) for model in study.models))),
        (tr("Arms"), _DOT.join(_arm(arm) for arm in study.arms)),
        (tr("Sparsities"), _percentages(study.sparsities)),
        (tr("Spread"), _DOT.join(allocator.label for allocator in study.allocators) if study.sparsities else ""),
        (tr("Tasks"), _DOT.join(_task(task) for task in evaluation.tasks)),
        (tr("Also measured"), _DOT.join(_own_units(study))),
        (tr("Documents"), tr("at most {limit} of each task", limit=f"{limit:,}") if limit else ""),
        (tr("Local data"), evaluation.data_folder or ""),
        (tr("Timed products"), _sweep(study.latency) if study.latency else ""),
    ]
    return [(caption, text) for caption, text in found if text]


def _model(location: str, quantization: str) -> str:
    name = location.removeprefix(ROLE)
    return name if quantization == "none" else tr("{model} in {bits}", model=name, bits=quantization.upper())


def _arm(arm: Arm) -> str:
    own = f" ({_percentages(arm.sparsities)})" if arm.sparsities else ""
    return (arm.name or arm.label) + own


def _percentages(sparsities: Sequence[float]) -> str:
    return f"{', '.join(f'{100 * each:g}' for each in sparsities)} %" if sparsities else ""


def _task(task: str | TaskSpec) -> str:
    if isinstance(task, str):
        return task
    details = [
        tr("{examples}-shot", examples=task.num_fewshot) if task.num_fewshot is not None else "",
        tr("{n} documents", "{n} document", task.limit) if task.limit else "",
    ]
    told = ", ".join(filter(None, details))
    return f"{task.name} ({told})" if told else task.name


def _own_units(study: StudySpec) -> list[str]:
    evaluation, own = study.evaluation, []
    if not study.models:
        return own
    if evaluation.synthetic:
        return [tr("errors of random networks, {networks}", networks=evaluation.synthetic.label)]
    if DEVIATION in evaluation.units and evaluation.deviation:
        own.append(tr("KL and perplexity on {text}", text=evaluation.deviation.label))
    if evaluation.cost_context:
        positions = tr("{n} positions", "{n} position", evaluation.cost_context)
        own.append(tr("cost of a token at {positions} of context", positions=positions))
    return own


def _sweep(spec: LatencySpec) -> str:
    parts = [
        tr("{n} shapes", "{n} shape", len(spec.shapes)),
        tr("batch {batches}", batches=", ".join(map(str, spec.batches))),
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
    parts = [_stored(state)]
    etas = [entry.eta_seconds for entry in begun if entry.eta_seconds is not None]
    if etas:
        parts.append(tr("{time} left", time=duration(max(etas))))
    held = {"pausing": tr("pausing"), "paused": tr("paused"), "cancelling": tr("cancelling")}
    if len(states) == 1 and states <= held.keys():
        parts += [held[state] for state in states]
    elif not begun:
        parts.append(tr("waiting for the engine"))
    elif len(begun) < len(entries):
        parts.append(tr("{jobs} to follow", jobs=tr("{n} jobs", "{n} job", len(entries) - len(begun))))
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
    queued = [_measurements(units)] if units else []
    queued += [tr("{n} timed products", "{n} timed product", state.points_missing)] if state.points_missing else []
    sentences = [tr("Queued {what}.", what=listed(queued)) if queued else tr("Nothing is left to queue.")]
    if state.stored:
        sentences.append(
            tr(
                "{n} measurements are stored already and reused.",
                "{n} measurement is stored already and reused.",
                state.stored,
            )
        )
    if elsewhere:
        sentences.append(
            tr("{n} measurements are queued by another job.", "{n} measurement is queued by another job.", elsewhere)
        )
    return " ".join(sentences)


def estimate_text(record: EstimateRecord, state: StudyState) -> str:
    """How long the missing measurements should take, how that is known, and what is left out."""
    probed = sum(estimate.basis == "probe" for estimate in record.estimates)
    known = len(record.estimates) - probed
    sources = [
        tr("{kinds} of them timed on a few documents", kinds=tr("{n} kinds", "{n} kind", probed)) if probed else "",
        tr("{count} taken from stored ones", count=f"{known:,}") if known else "",
    ]
    time, measurements, how = duration(record.seconds), _measurements(record.units), ", ".join(filter(None, sources))
    if how:
        sentence = tr("About {time} for {measurements} ({how}).", time=time, measurements=measurements, how=how)
    else:
        sentence = tr("About {time} for {measurements}.", time=time, measurements=measurements)
    if state.points_missing:
        left_out = tr("Rotating, calibrating and allocating come on top, and the timed products.")
    else:
        left_out = tr("Rotating, calibrating and allocating come on top.")
    return f"{sentence} {left_out}"


def _measurements(number: int) -> str:
    return tr("{n} measurements", "{n} measurement", number)


def _stored(state: StudyState) -> str:
    return tr("{stored} of {total} stored", stored=f"{state.stored:,}", total=_measurements(state.total))
