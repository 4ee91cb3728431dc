"""What a hostile engine on another machine says: by hand, and mutations of what an honest one says."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.wina_core.engine.engine_events import evaluate, run
from wina_core.files.version import __version__
from wina_core.jobs import (
    Assigned,
    Done,
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
    Token,
    encode,
)
from wina_core.jobs.job_specs import Message
from wina_core.records import Environment, ExportRecord, LayerRecord, MetricRecord, UnitRecord
from wina_core.specs import ModelSource

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


@dataclass
class Case:
    """What it says before and after it is given a job."""

    name: str
    then: bytes = b""
    first: bytes = START
    times: int = 1
    job: Job = field(default=EVALUATE)
    stays: bool = True
    """False if it ends at once, again and again."""


def said(name: str, *events: Message | str, job: Job = EVALUATE) -> Case:
    """Return a case of events in order."""
    return Case(name, lines(*events), job=job)


def _raw(change: Callable[[dict[str, object]], object], event: Message) -> str:
    """Return an event with a change that its model would not allow."""
    content = json.loads(encode(event))
    change(content)
    return json.dumps(content)


def _with(event: Message, place: str, value: object) -> str:
    """Return an event with another value at a dotted place."""

    def change(content: dict[str, object]) -> None:
        *way, last = place.split(".")
        target: object = content
        for each in way:
            target = target[int(each)] if isinstance(target, list) else target[each]  # type: ignore[index]
        target[last] = value  # type: ignore[index]

    return _raw(change, event)


NUMBERS = (-1, 10**30, 1e308, "NaN", "Infinity", "-Infinity", None, True, "7", [], {})
EXPORT = ExportModelJob(spec=SPEC, folder="/models/sparse")
TOKEN = Token(job_id=JOB, configuration=0, id=1, text="x", log_probability=0.0, read=1, seconds=1.0)
PROGRESS = Progress(job_id=JOB, done=1.0, total=2.0, unit="requests", eta_seconds=3.0)


def _exported(folder: str) -> Result:
    return Result(job_id=JOB, value=ExportRecord(folder=folder, bytes=-1))


def by_hand() -> list[Case]:
    """Return the cases that were thought of."""
    layer = LayerRecord(layer=-7, projection="q", metric="sparsity", value=0.5)
    deep = "[" * 100_000 + "]" * 100_000
    return [
        Case("nothing but silence after the beginning"),
        Case("random bytes for a beginning", first=random.Random(1).randbytes(5000) + b"\n", stays=False),
        Case("a beginning of deep JSON", first=b'{"type":' + deep.encode() + b"}\n"),
        Case("lines of login scripts without end", first=b"Welcome!\n" * 100_000),
        Case("a result before the beginning", first=lines(HONEST[2])),
        Case("an end before the beginning", first=lines(Done(job_id=JOB))),
        Case("an endless line", b"x" * 2**20, times=200),
        Case("an endless first line", first=b"x" * 2**26 + b"x" * 2**20),
        Case("random bytes", random.Random(2).randbytes(100_000) + b"\n"),
        Case("lines that are no objects", b"[1, 2]\n"),
        said("a type that is a huge number", '{"type":' + "9" * 4000 + "}"),
        said("an event of deep JSON", *BEGIN, deep),
        said("an event that is text", *BEGIN, "all is well"),
        said("an event of an unknown type", *BEGIN, '{"type":"trust_me","job_id":"JOBID"}'),
        said("a run that nobody asked for", *BEGIN, RunStarted(job_id=JOB, run=OTHER.content_hash())),
        said("a result of a run that nobody asked for", *BEGIN, unit(of=OTHER.content_hash())),
        said("a wrong hash", *BEGIN, unit(of="0" * 16)),
        said("a hash with escapes", *BEGIN, unit(of=ESCAPES)),
        said("a measurement that nobody asked for", *BEGIN, unit("mmlu")),
        said("a measurement twice", *BEGIN, unit(), unit()),
        said("a measurement before its run", Started(job_id=JOB), unit()),
        said("a finished run without its measurements", *BEGIN, RunFinished(job_id=JOB, run=RUN), Done(job_id=JOB)),
        said("a job that is done without its measurements", *BEGIN, Done(job_id=JOB)),
        said("a job that is done twice", *HONEST, Done(job_id=JOB)),
        said("results after the end", Done(job_id=JOB), *HONEST),
        said("the end of another's job", *BEGIN, Done(job_id="honest/1")),
        said("a result of another's job", *BEGIN, unit().model_copy(update={"job_id": "honest/1"})),
        said("a failure of another's job", *BEGIN, Failed(job_id="honest/1", error="ha")),
        said("a failure of another's run", *BEGIN, RunFailed(job_id=JOB, run=OTHER.content_hash(), error="ha")),
        said("a result of another kind", *BEGIN, _exported("/etc")),
        said("another's kind of result", Started(job_id=JOB), _exported("/"), job=INSPECT),
        said("runs of a job without runs", *BEGIN, job=INSPECT),
        said("a token of no completion", *BEGIN, TOKEN),
        said("an event of the queue: queued", *BEGIN, Queued(job_id=JOB, priority="first")),
        said("an event of the queue: assigned", *BEGIN, Assigned(engine=1, job=JOB)),
        said("an event that does not exist", *BEGIN, '{"type":"attached"}'),
        said("a hold that nobody asked for", *BEGIN, Held(job_id=JOB, held=True), *HONEST[2:]),
        said("a name with escapes", *BEGIN, _with(unit(), "unit.metrics.0.metric", ESCAPES)),
        said("a task with escapes", *BEGIN, _with(unit(), "unit.metrics.0.task", ESCAPES)),
        said("a name of 200,000 letters", *BEGIN, _with(unit(), "unit.metrics.0.task", "x" * 200_000)),
        said("hardware with escapes", _with(READY, "environment.hardware", ESCAPES)),
        said("versions with escapes", _with(READY, "environment.versions", {ESCAPES: ESCAPES})),
        said("a log with escapes", *BEGIN, Log(level="error", text=ESCAPES), *HONEST[2:]),
        said("a log of 20 MB", *BEGIN, Log(level="error", text="x" * 20_000_000), *HONEST[2:]),
        said("a failure with escapes", *BEGIN, Failed(job_id=JOB, error=ESCAPES, detail=ESCAPES, engine_end=ESCAPES)),
        said("a failure of 20 MB", *BEGIN, Failed(job_id=JOB, error="x" * 20_000_000)),
        said("a failed run with escapes", *BEGIN, RunFailed(job_id=JOB, run=RUN, error=ESCAPES), Done(job_id=JOB)),
        said("progress with escapes", *BEGIN, PROGRESS.model_copy(update={"metric": ESCAPES}), *HONEST[2:]),
        said("progress of 20 MB", *BEGIN, PROGRESS.model_copy(update={"metric": "x" * 20_000_000})),
        said("a path outside", Started(job_id=JOB), _exported("../../etc"), job=EXPORT),
        said("a path with escapes", Started(job_id=JOB), _exported(f"/{ESCAPES}"), job=EXPORT),
        said("negative counts", *BEGIN, _with(unit(), "unit.metrics.0.n", -5), unit(UNITS[1]), *HONEST[-2:]),
        said("a negative layer", *BEGIN, unit(layers=(layer,)), unit(UNITS[1]), *HONEST[-2:]),
        *(said(f"a value of {each}", *BEGIN, _with(unit(), "unit.metrics.0.value", each)) for each in NUMBERS),
        *(said(f"a count of {each}", *BEGIN, _with(unit(), "unit.metrics.0.n", each)) for each in NUMBERS),
        *(said(f"seconds of {each}", *BEGIN, _with(unit(), "unit.seconds", each)) for each in NUMBERS),
        *(said(f"progress of {each}", *BEGIN, _with(PROGRESS, "done", each), *HONEST[2:]) for each in NUMBERS),
        *(said(f"time left of {each}", *BEGIN, _with(PROGRESS, "eta_seconds", each), *HONEST[2:]) for each in NUMBERS),
        Case("a connection that ends again and again", stays=False),
        Case("a connection that ends within a line", lines(*HONEST)[:-20], stays=False),
        said("100,000 events", *BEGIN, *[PROGRESS] * 100_000),
    ]  # fmt: skip


def mutated(number: int) -> Case:
    """Return an honest engine's lines with a few random changes."""
    chance = random.Random(number)
    said = lines(READY, *HONEST).splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(said))
        line = said[at]
        match chance.randrange(7):
            case 0:
                said.pop(at)
            case 1:
                said.insert(chance.randrange(len(said)), line)
            case 2:
                other = chance.randrange(len(said))
                said[at], said[other] = said[other], line
            case 3:
                place = chance.randrange(len(line))
                said[at] = line[:place] + chance.randbytes(chance.randint(1, 4)) + line[place + 1 :]
            case 4:
                place = chance.randrange(len(line))
                said[at] = line[:place] + line[chance.randrange(place, len(line)) :]
            case 5:
                digits = [place for place, each in enumerate(line) if chr(each).isdigit()]
                if digits:
                    place = chance.choice(digits)
                    wild = chance.choice([b"-1", b"1e400", b"NaN", b"9" * 50, b"null", b'"x"', b"0.5"])
                    said[at] = line[:place] + wild + line[place + 1 :]
            case 6:
                quotes = [place for place, each in enumerate(line) if chr(each).isalpha()]
                if quotes:
                    place = chance.choice(quotes)
                    said[at] = (
                        line[:place]
                        + chance.choice([b"\\u001b[2J", b"\\n", b"\xff", b"../../", b"\\u0000"])
                        + line[place:]
                    )
        if not said:
            break
    return Case(f"mutation {number}", b"".join(said[1:]), b"".join(said[:1]))


def cases(count: int) -> list[Case]:
    """Return so many cases, at most half of them by hand where they are few."""
    hand = by_hand()
    if count < len(hand):
        step = -(-len(hand) * 2 // count)
        hand = hand[::step]
    return [*hand, *map(mutated, range(count - len(hand)))]
