"""A submitted array of synthetic runs, and a machine in this process that plays the queue."""

import time
from dataclasses import dataclass, field

from wina_core.jobs import Done, EvaluateJob, Partial, PendingRun, RunStarted
from wina_core.records import MetricRecord, UnitRecord
from wina_core.remote.cluster.kept import KeptArray
from wina_core.remote.cluster.requests import (
    ArrayAnswer,
    ArrayDone,
    ArrayLook,
    ArrayRequest,
    ArraySubmitted,
    CancelArray,
    ElementState,
    ElementStatus,
    Lines,
    LookAtArray,
    RequeueElements,
    SubmitArray,
)
from wina_core.specs import SYNTHETIC, Configuration, EvaluationSpec, MethodSpec, ModelSource, RunSpec, SyntheticSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.spill import Recorded, line_of

MODEL = ModelSource(location="synthetic")
EVALUATION = EvaluationSpec(synthetic=SyntheticSpec(size=32, seeds=2, networks=("lemma",)))


def spec(sparsity: float) -> RunSpec:
    """Return a run of the synthetic study."""
    return RunSpec(
        model=MODEL,
        rotation=Configuration().rotation,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EVALUATION,
    )


SPECS = tuple(spec(sparsity) for sparsity in (0.2, 0.4, 0.6, 0.8))
STUDY = StudySpec(
    name="queued",
    models=(MODEL,),
    configurations=(Configuration(method=MethodSpec(name="wina")),),
    sparsities=(0.2, 0.4, 0.6, 0.8),
    evaluation=EVALUATION,
)


def element(*specs: RunSpec) -> EvaluateJob:
    """Return an element that computes runs."""
    return EvaluateJob(runs=tuple(PendingRun(spec=each, units=(SYNTHETIC,)) for each in specs))


ELEMENTS = (element(*SPECS[:2]), element(*SPECS[2:]))


def kept(store: Store) -> KeptArray:
    """Return an array of two elements, whose study is saved."""
    store.save_study(STUDY, SPECS)
    return KeptArray(id="0" * 12, title="queued", machine="local", job="7", submitted=time.time(), elements=ELEMENTS)


def result(run: RunSpec, value: float = 1.0, unit: str = SYNTHETIC) -> Partial:
    """Return a result of a run."""
    metric = MetricRecord(task="lemma", metric="error", value=value)
    return Partial(job_id="x", unit=UnitRecord(run=run.content_hash(), unit=unit, metrics=(metric,), seconds=1.0))


def lines(*messages: Recorded, end: int = 0) -> Lines:
    """Return messages as an element's file has them."""
    text = b"".join(line_of(message, time.time()) for message in messages).decode()
    return Lines(text=text, end=end or len(text))


def whole(job: EvaluateJob) -> list[Recorded]:
    """Return the events of an element that computes all of its runs."""
    each = [(RunStarted(job_id="x", run=run.spec.content_hash()), result(run.spec)) for run in job.runs]
    return [*(message for pair in each for message in pair), Done(job_id="x")]


@dataclass
class Queue:
    """A machine that answers as the test says."""

    states: dict[int, ElementState] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)
    requests: list[ArrayRequest] = field(default_factory=list)

    def write(self, index: int, *messages: Recorded) -> None:
        """Append messages to an element's file."""
        self.files[index] = self.files.get(index, b"") + lines(*messages).text.encode()

    def ask(self, _machine: str, request: ArrayRequest) -> ArrayAnswer:
        """Answer a request."""
        self.requests.append(request)
        match request:
            case SubmitArray():
                self.states = dict.fromkeys(range(len(request.elements)), "pending")
                return ArraySubmitted(job="7")
            case LookAtArray():
                found = {index: self.files.get(index, b"")[offset:] for index, offset in request.offsets.items()}
                return ArrayLook(
                    states={index: ElementStatus(state=state) for index, state in self.states.items()},
                    lines={
                        index: Lines(text=text.decode(), end=len(self.files[index]))
                        for index, text in found.items()
                        if text
                    },
                )
            case RequeueElements():
                self.states |= dict.fromkeys(request.elements, "requeued")
            case CancelArray():
                self.states = dict.fromkeys(self.states, "cancelled")
        return ArrayDone()

    def asked(self, kind: type[ArrayRequest]) -> int:
        """Count the requests of a kind."""
        return sum(isinstance(request, kind) for request in self.requests)
