"""An engine on another machine may break every rule: what it says is checked, and its own job alone may fail.

Its lines go to the client of its machine one by one; what passes is recorded as in the window.
"""

import json
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.wina_core.engine.engine_events import DEMO, evaluate, run
from wina_core.engine.client.client import EngineClient
from wina_core.files.version import __version__
from wina_core.jobs import (
    Assigned,
    Done,
    EvaluateJob,
    Event,
    ExportModelJob,
    Failed,
    Held,
    InspectJob,
    Job,
    Log,
    Partial,
    Progress,
    Queued,
    Ready,
    Result,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
    Submit,
    Token,
    encode,
)
from wina_core.jobs.job_specs import Message
from wina_core.records import Environment, ExportRecord, LayerRecord, MetricRecord, UnitRecord
from wina_core.remote.machine_client import MachineClient
from wina_core.specs import Configuration, ModelSource
from wina_core.specs.machine import Machine
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

SPEC, OTHER = run(0.37), run(0.73)
RUN, UNITS = SPEC.content_hash(), SPEC.evaluation.units
EVALUATE = evaluate(SPEC)
INSPECT = InspectJob(model=ModelSource(location="/models/toy"))
READY = Ready(pid=1, environment=Environment(device="cpu", hardware="evil", versions={"wina-workbench": __version__}))
JOB = "JOBID"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\n\r\u202egnp.exe"


def unit(name: str = UNITS[0], of: str = RUN, value: float = 0.5, **changes: object) -> Partial:
    metric = MetricRecord(task=name, metric="acc", value=value, n=3)
    return Partial(
        job_id=JOB, unit=UnitRecord(run=of, unit=name, metrics=(metric,), seconds=1.0).model_copy(update=changes)
    )


BEGIN: tuple[Message, ...] = (Started(job_id=JOB), RunStarted(job_id=JOB, run=RUN))
HONEST: tuple[Message, ...] = (*BEGIN, *map(unit, UNITS), RunFinished(job_id=JOB, run=RUN), Done(job_id=JOB))


def lines(*events: Message | str) -> bytes:
    """Return events as lines."""
    return "".join(encode(event) if isinstance(event, Message) else f"{event}\n" for event in events).encode()


START = lines(READY)


class Case(NamedTuple):
    """An engine's lines."""

    name: str
    lines: bytes
    job: Job = EVALUATE


def said(name: str, *events: Message | str, job: Job = EVALUATE) -> Case:
    """Return a case of an engine that is ready, and then sends these events in order."""
    return Case(name, START + lines(*events), job)


def _with(event: Message, place: str, value: object) -> str:
    """Return an event with a value at a dotted place that its model would not allow."""
    content = target = json.loads(encode(event))
    *way, last = place.split(".")
    for step in way:
        target = target[int(step)] if isinstance(target, list) else target[step]
    target[last] = value
    return json.dumps(content)


NUMBERS = (-1, 10**30, 1e308, "NaN", "Infinity", "-Infinity", None, True, "7", [], {})
EXPORT = ExportModelJob(spec=SPEC, folder="/models/sparse")
TOKEN = Token(job_id=JOB, configuration=0, id=1, text="x", log_probability=0.0, read=1, seconds=1.0)
PROGRESS = Progress(job_id=JOB, done=1.0, total=2.0, unit="requests", eta_seconds=3.0)


def _exported(folder: str) -> Result:
    return Result(job_id=JOB, value=ExportRecord(folder=folder, bytes=-1))


def cases() -> list[Case]:
    """Return the cases that were thought of."""
    layer = LayerRecord(layer=-7, projection="q", metric="sparsity", value=0.5)
    deep = "[" * 100_000 + "]" * 100_000
    return [
        Case("random bytes for a beginning", random.Random(1).randbytes(5000) + b"\n"),
        Case("a beginning of deep JSON", b'{"type":' + deep.encode() + b"}\n"),
        Case("a result before the beginning", lines(HONEST[2])),
        Case("random bytes", START + random.Random(2).randbytes(100_000) + b"\n"),
        said("a type that is a huge number", '{"type":' + "9" * 4000 + "}"),
        said("an event of deep JSON", *BEGIN, deep),
        said("an event of an unknown type", *BEGIN, '{"type":"trust_me","job_id":"JOBID"}'),
        said("a run that nobody asked for", *BEGIN, RunStarted(job_id=JOB, run=OTHER.content_hash())),
        said("a result of a run that nobody asked for", *BEGIN, unit(of=OTHER.content_hash())),
        said("a hash with escapes", *BEGIN, unit(of=ESCAPES)),
        said("a measurement that nobody asked for", *BEGIN, unit("mmlu")),
        said("a measurement before its run", Started(job_id=JOB), unit()),
        said("a finished run without its measurements", *BEGIN, RunFinished(job_id=JOB, run=RUN), Done(job_id=JOB)),
        said("a job that is done without its measurements", *BEGIN, Done(job_id=JOB)),
        said("results after the end", Done(job_id=JOB), *HONEST),
        said("the end of another's job", *BEGIN, Done(job_id="honest/1")),
        said("a result of another's job", *BEGIN, unit().model_copy(update={"job_id": "honest/1"})),
        said("a failure of another's job", *BEGIN, Failed(job_id="honest/1", error="ha")),
        said("a result of another kind", *BEGIN, _exported("/etc")),
        said("runs of a job without runs", *BEGIN, job=INSPECT),
        said("a token of no completion", *BEGIN, TOKEN),
        said("an event of the queue: queued", *BEGIN, Queued(job_id=JOB, priority="first")),
        said("an event of the queue: assigned", *BEGIN, Assigned(engine=1, job=JOB)),
        said("a hold that nobody asked for", *BEGIN, Held(job_id=JOB, held=True), *HONEST[2:]),
        said("a name with escapes", *BEGIN, _with(unit(), "unit.metrics.0.metric", ESCAPES)),
        said("a name of 200,000 letters", *BEGIN, _with(unit(), "unit.metrics.0.task", "x" * 200_000)),
        said("hardware with escapes", _with(READY, "environment.hardware", ESCAPES)),
        said("a log with escapes", *BEGIN, Log(level="error", text=ESCAPES), *HONEST[2:]),
        said("a log of 2 MB", *BEGIN, Log(level="error", text="x" * 2_000_000), *HONEST[2:]),
        said("a failure with escapes", *BEGIN, Failed(job_id=JOB, error=ESCAPES, detail=ESCAPES, engine_end=ESCAPES)),
        said("progress with escapes", *BEGIN, PROGRESS.model_copy(update={"metric": ESCAPES}), *HONEST[2:]),
        said("a path outside", Started(job_id=JOB), _exported("../../etc"), job=EXPORT),
        said("a negative layer", *BEGIN, unit(layers=(layer,)), unit(UNITS[1]), *HONEST[-2:]),
        *(said(f"a value of {number}", *BEGIN, _with(unit(), "unit.metrics.0.value", number)) for number in NUMBERS),
        *(said(f"progress of {number}", *BEGIN, _with(PROGRESS, "done", number), *HONEST[2:]) for number in NUMBERS),
        *(said(f"{number} s left", *BEGIN, _with(PROGRESS, "eta_seconds", number), *HONEST[2:]) for number in NUMBERS),
        Case("a connection that ends within a line", (START + lines(*HONEST))[:-20]),
    ]  # fmt: skip


def mutated(number: int) -> Case:
    """Return an honest engine's lines with a few random changes."""
    chance = random.Random(number)
    content = lines(READY, *HONEST).splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(content)), chance.randrange(len(content))
        line = content[at]
        start, end = sorted((chance.randrange(len(line)), chance.randrange(len(line))))
        match chance.randrange(5):
            case 0 if len(content) > 1:
                content.pop(at)
            case 1:
                content.insert(other, line)
            case 2:
                content[at], content[other] = content[other], line
            case 3:
                content[at] = line[:start] + line[end:]
            case _:
                piece = chance.choice(
                    (b"-1", b"1e400", b"NaN", b"9" * 50, b"\\u001b[2J", b"\xff", b"../../", b"\\u0000")
                )
                content[at] = line[:start] + piece + line[start + 1 :]
    return Case(f"mutation {number}", b"".join(content))


class Outcome(NamedTuple):
    """Everything that reached the window, and the reason for which the engine was ended."""

    events: list[Event]
    fault: str


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a client have no process: the test reads its lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINA_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(EngineClient, "send", lambda _client, _request: None)
        patch.setattr(MachineClient, "_end", lambda client, fault: setattr(client, "_fault", fault))
        yield


def outcome(case: Case) -> Outcome:
    events: list[Event] = []
    client = MachineClient(events.append, Machine(host="evil", folders={"/models": "/data"}))
    client.send(Submit(job_id=JOB, job=case.job))
    events.extend(filter(None, map(client.read_event, case.lines.splitlines(keepends=True))))
    return Outcome(events, client._fault)


def _texts(event: Event) -> list[str]:
    """Return the lines that an event may show in a terminal."""
    match event:
        case Failed() | RunFailed():
            return [event.error, *event.detail.split("\n")]
        case Log():
            return event.text.split("\n")
    return [str(getattr(event, name, "")) for name in ("hardware", "metric", "unit", "error")]


def stored(case: Case, events: list[Event]) -> list[tuple[str, str]]:
    """Record the events in a database; return run and unit of each measurement in it."""
    study = StudySpec(name="evil", models=(DEMO,), configurations=(Configuration(),))
    with Store("sqlite://") as store:
        name = store.save_study(study, (SPEC, OTHER))
        recorder = Recorder(store, case.job)
        for event in events:
            recorder.record(event)
        return [(row.run, row.unit) for row in store.units(name)]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("case", [*cases(), *map(mutated, range(40))], ids=lambda case: case.name)
def test_an_engine_that_breaks_the_rules_stores_and_shows_nothing_that_was_not_requested(case: Case) -> None:
    events, fault = outcome(case)
    for text in (fault, *(text for event in events for text in _texts(event))):
        assert text.isprintable()
        assert len(text) <= 70_000
    rows = stored(case, events)
    requested = {(RUN, unit) for unit in UNITS} if isinstance(case.job, EvaluateJob) else set()
    assert set(rows) <= requested
    assert len(set(rows)) == len(rows)


@pytest.mark.usefixtures("patched")
def test_an_honest_engine_is_believed_and_one_that_is_not_is_ended() -> None:
    honest = said("honest", *HONEST)
    events, fault = outcome(honest)
    assert fault == ""
    assert set(stored(honest, events)) == {(RUN, unit) for unit in UNITS}
    assert "of another job" in outcome(said("another's", *BEGIN, Done(job_id="honest/1"))).fault
    assert "no event" in outcome(said("text", *BEGIN, "all is well")).fault
