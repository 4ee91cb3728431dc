"""Studies made of options, and their launch: saved in the store, with one job for what is missing.

It is the first of four steps from a command, a page of the window or a call of the API to a stored row:

1. `launch` expands the study into runs, leaves out the measurements that are stored (`store.reuse.missing_of`), checks
   the rest, saves the study, and returns one EvaluateJob for it.
2. An `EngineClient` (`engine.client.client`) starts an engine process and sends it the job as one line of JSON; an
   `EnginePool` (`engine.client.pool`) does so for several engines, and shares the runs among them. The command line
   computes in its own process unless it was given engines or machines (`api.running.run_recorded`).
3. `run_job` (`engine.server.run_job`) computes the job, and emits a Partial for each measurement as it is there.
4. A `Recorder` (`store.recorder`) writes each Partial when it arrives; the job stops if the database refuses one.

So whatever ends early, an engine, a connection or the whole program, loses no more than the measurement under way: the
next launch computes what is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.specs import (
    COST_CONTEXT,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    ModelSource,
    RunSpec,
    TaskSpec,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import check_made
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import labelled, specs_of
from wina_core.studies.run_labels import LabelledRun
from wina_core.studies.tasks.check_runs import check_runs
from wina_core.studies.tasks.task_code import task_code

_CALIBRATION = CalibrationSpec()


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of a study of one model that its hash covers; `wina eval`, `measure` and the Evaluate page fill them."""

    name: str
    model: ModelSource
    configurations: Sequence[Configuration]
    sparsities: Sequence[float] = ()
    """Fractions to drop, in [0, 1)."""
    allocators: Sequence[AllocatorSpec] = (AllocatorSpec(),)
    plans: Sequence[SparsityPlan] = ()
    calibration: CalibrationSpec | Mapping[str, Any] = _CALIBRATION
    tasks: Sequence[str | TaskSpec] = ()
    task_folders: Sequence[str] = ()
    data_folder: str | None = None
    """Folder of local data, "demo" for the shipped one; None for the Hub."""
    limit: int | None = None
    """Documents of each task; None for all."""
    num_fewshot: int | None = None
    chat_template: bool = False
    batch_size: int | Literal["auto"] | str = 16
    seed: int = 1234
    dense_prefix: float = 0.0
    fidelity: TextSpec | Mapping[str, Any] | None = None
    """Text on which logits are compared with the same model's without gates."""
    original: TextSpec | Mapping[str, Any] | None = None
    """Text on which logits are compared with the original's."""
    cost_context: int | None = None
    """Positions that a token attends to, to count its cost; 0 not to count it, None for COST_CONTEXT where anything
    else is measured."""


def study_of(options: StudyOptions) -> StudySpec:
    """Return the study of these options. Raises pydantic's ValidationError, whose locations begin with the option."""
    content = {field.name: getattr(options, field.name) for field in fields(options)}
    content["models"] = (content.pop("model"),)
    measures = bool(options.tasks or options.fidelity or options.original)
    context = content.pop("cost_context")
    evaluation = {name: content.pop(name) for name in EvaluationSpec.model_fields if name in content}
    evaluation["cost_context"] = (COST_CONTEXT if measures and context is None else context) or None
    # By itself first, so that the location of a fault begins with its option.
    return StudySpec.model_validate({**content, "evaluation": EvaluationSpec.model_validate(evaluation)})


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of computing a study, on which no number depends."""

    recompute: bool = False
    """Compute everything again, stored measurements included."""
    samples: bool = False
    """Also store the scores and completions of every document."""
    run_model_code: bool = False
    """Consent to run programs that the model writes, for this launch."""
    trust_task_code: bool = False
    """Consent to the code of task folders, for this launch; without it, stored consents count."""
    machines: tuple[str, ...] = ()
    """Machines that compute; empty for this computer."""
    queued: frozenset[str] = frozenset()
    """Hashes of runs that other jobs compute already, which are left out."""
    hardware: str = ""
    """Name of the hardware whose stored times the time left begins with; empty for none."""


@dataclass(frozen=True)
class Launched:
    """A study that is saved in the store."""

    study: str
    """Hash in the store."""
    runs: tuple[LabelledRun, ...]
    """All runs with their labels."""
    job: EvaluateJob | None
    """Job that computes what is missing; None where nothing is."""
    missing: int
    """Measurements of the job."""
    total: int
    """Measurements of the study, without those of its sweep of products."""

    @property
    def pending(self) -> tuple[PendingRun, ...]:
        return () if self.job is None else self.job.runs

    @property
    def remark(self) -> str:
        """Return how much is reused or computed, as a sentence without its subject; empty for no measurements."""
        if self.missing < self.total:
            return f"{self.total - self.missing} of {self.total} measurements are stored and reused."
        return f"{self.missing} measurements to compute." if self.missing else ""


class StudyStore(Protocol):
    """Part of `Store` that a launch uses."""

    def pending(self, runs: Sequence[RunSpec], samples: bool = False) -> list[PendingRun]:
        """Return the runs that miss units, with these units."""

    def unit_seconds(self, runs: Sequence[RunSpec], hardware: str = "") -> dict[str, float]:
        """Return the median seconds of like measurements on a hardware, by their key; empty for any hardware."""

    def launch(self, study: StudySpec, runs: Sequence[LabelledRun], pending: Sequence[PendingRun]) -> str:
        """Save a study and queue its pending runs; return its hash."""


def launch(study: StudySpec, options: LaunchOptions, store: StudyStore) -> Launched:
    """Save a study and queue its missing measurements, or all with `recompute`.

    Nothing is saved where this raises. Raises WinaError if nothing would be measured, for a missing file, an unknown
    task, allocator or quantizer, and TaskCodeError for a task folder's code without consent.
    """
    if study.models and not study.evaluation.units:
        raise WinaError("Nothing would be measured; name tasks, or a text (the options fidelity and original).")
    runs = labelled(study) if study.models else ()
    specs = specs_of(runs)
    every = [PendingRun(spec=spec, units=spec.evaluation.units) for spec in specs if spec.evaluation.units]
    missing = every if options.recompute else store.pending(specs, options.samples)
    # All checks come before the store is written: a study that is refused leaves nothing there.
    pending = tuple(run for run in missing if run.spec.content_hash() not in options.queued)
    check_runs(missing)
    for run in pending:
        check_made(run.spec.model.quantization)
    code = task_code(pending, options.trust_task_code)
    job = EvaluateJob(
        runs=pending,
        samples=options.samples,
        run_model_code=options.run_model_code,
        task_code=code,
        metrics=study.evaluation.metrics,
        stored=store.unit_seconds([run.spec for run in pending], options.hardware) if options.hardware else {},
    )
    return Launched(
        study=store.launch(study, runs, pending),
        runs=runs,
        job=job if pending else None,
        missing=sum(len(run.units) for run in pending),
        total=sum(len(run.units) for run in every),
    )
