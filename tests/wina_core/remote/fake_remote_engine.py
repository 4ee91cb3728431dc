"""An engine without torch: `fake_remote_engine.py [SECONDS]`; SECONDS is the time of each measurement, or "never".

Without SECONDS, the file "pace" in WINA_HOME has them. The file "computed" there gets a line for each measurement. An
InspectJob's location says what becomes of it: "exit 3", "signal 11", "hang" or anything else, which is done at once. A
run of 95 % sparsity ends the engine with code 3, and "never" does so before it is ready.
"""

import os
import queue
import sys
import threading
import time
from pathlib import Path

from wina_core.files.version import __version__
from wina_core.jobs import (
    REQUESTS,
    Cancel,
    Done,
    EvaluateJob,
    ExportModelJob,
    InspectJob,
    Partial,
    Ready,
    Result,
    RunFinished,
    RunStarted,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.jobs.job_specs import Message
from wina_core.records import Environment, ExportRecord, MetricRecord, UnitRecord
from wina_core.specs.plans import UniformSparsity

HOME = Path(os.environ.get("WINA_HOME", os.devnull))
requests: "queue.SimpleQueue[Submit]" = queue.SimpleQueue()
stops = threading.Event()


def say(*events: Message) -> None:
    sys.stdout.write("".join(map(encode, events)))
    sys.stdout.flush()


def say_ready() -> None:
    versions = {"wina-workbench": __version__}
    environment = Environment(device="fake", hardware=f"fake in {HOME.name}", versions=versions)
    say(Ready(pid=os.getpid(), environment=environment))


def read() -> None:
    for line in sys.stdin.buffer:
        match REQUESTS.validate_json(line):
            case Submit() as submit:
                stops.clear()
                requests.put(submit)
            case Cancel():
                stops.set()
            case Shutdown():
                break
    os._exit(0)


def inspect(wish: str) -> None:
    word, _, number = wish.partition(" ")
    match word:
        case "exit":
            print("about to exit", file=sys.stderr, flush=True)
            os._exit(int(number))
        case "signal":
            os.kill(os.getpid(), int(number))
        case "hang":
            time.sleep(600)


def pace(seconds: float | None) -> float:
    file = HOME / "pace"
    return seconds if seconds is not None else float(file.read_text()) if file.exists() else 0.0


def evaluate(job_id: str, job: EvaluateJob, seconds: float | None) -> bool:
    """Compute all; False if it ended before."""
    for pending in job.runs:
        run = pending.spec.content_hash()
        say(RunStarted(job_id=job_id, run=run))
        if isinstance(pending.spec.plan, UniformSparsity) and pending.spec.plan.sparsity == 0.95:
            os._exit(3)
        for unit in pending.units:
            if stops.wait(pace(seconds)):
                return False
            if HOME.is_dir():
                with (HOME / "computed").open("a") as computed:
                    computed.write(f"{run} {unit}\n")
            metric = MetricRecord(task=unit, metric="acc", value=len(unit) / 100.0)
            say(Partial(job_id=job_id, unit=UnitRecord(run=run, unit=unit, metrics=(metric,), seconds=1.0)))
        say(RunFinished(job_id=job_id, run=run))
    return True


def main(seconds: float | None = None) -> None:
    threading.Thread(target=read, daemon=True).start()
    say_ready()
    while True:
        submit = requests.get()
        job_id, cancelled = submit.job_id, False
        say(Started(job_id=job_id))
        match submit.job:
            case EvaluateJob() as job:
                cancelled = not evaluate(job_id, job, seconds)
            case ExportModelJob() as job:
                (HOME / "asked").write_text(job.model_dump_json())
                say(Result(job_id=job_id, value=ExportRecord(folder=job.folder, bytes=1)))
            case InspectJob() as job:
                inspect(job.model.location)
        say(Done(job_id=job_id, cancelled=cancelled))


if __name__ == "__main__":
    times = [word for word in sys.argv[1:] if word != "engine"]  # the subcommand that ssh gives
    if times == ["never"]:
        sys.exit("There is no torch on this node.")
    main(*map(float, times))
