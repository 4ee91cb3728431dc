"""Engines on other machines that break every rule: only their own jobs may fail.

    python -m tests.trust.hostile_engine --cases 200

Each case is a machine of its own. Some of them work at a time for one pool, each on a job of its own, beside an honest
machine with a job of its own. What the pool reports goes into a database, as in the window. A job of a machine that
falls silent is cancelled after a while.
"""

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import psutil

from tests.trust.hostile_events import EVALUATE, OTHER, SPEC, UNITS, Case, cases
from tests.wina_core.engine.engine_events import DEMO, Events, evaluate
from tests.wina_core.remote.fake_machine import FakeMachine, install_fake_ssh
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Cancel, Done, EvaluateJob, Event, Failed, Log, RunFailed, Submit
from wina_core.remote.machine_client import MachineClient
from wina_core.remote.registry import find_machine, save_machine
from wina_core.specs import Configuration
from wina_core.specs.machine import Machine
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorder, Store

TOGETHER = 14
"""Cases at a time."""
START_SECONDS, BEGUN_SECONDS, SILENCE_SECONDS = 20.0, 6.0, 3.0
"""Time without an event until a job is cancelled: before its machine begins, before it has said all, and after."""
END_SECONDS = 600.0
"""Time for all jobs at a time to end."""
GRACE_SECONDS = 1.0


@dataclass
class Report:
    """Counts of what went wrong; all but the cases, their ends and the time must be 0."""

    cases: int = 0
    failed: int = 0
    done: int = 0
    cancelled: int = 0
    hung: int = 0
    unreadable: int = 0
    """Failures that are not one printable sentence, and other texts that would control a terminal."""
    foreign_rows: int = 0
    """Stored rows that nobody asked for, and events that the store could not take."""
    others_failed: int = 0
    """Honest jobs that did not end as usual."""
    left: int = 0
    """Processes that outlived their pool."""
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return self.hung + self.unreadable + self.foreign_rows + self.others_failed + self.left

    def note(self, count: str, case: str, what: object) -> None:
        """Count a fault."""
        setattr(self, count, getattr(self, count) + 1)
        self.found.append(f"{case}: {count}: {str(what)[:300]}")


class _Trial:
    """One case: its machine, its job and its database."""

    def __init__(self, number: int, case: Case, folder: Path) -> None:
        self.case, self.machine, self.id = case, f"evil-{number}", f"evil-{number}"
        self.events: list[Event] = []
        self.last = 0.0
        self._patience = START_SECONDS
        self.cancelled = False
        self._folder = folder / self.machine
        self._folder.mkdir()
        for name, content in {"first": case.first, "then": case.then, "times": str(case.times).encode()}.items():
            (self._folder / name).write_bytes(content)
        if case.stays:
            (self._folder / "stay").touch()
        program = Path(__file__).with_name("hostile_program.py")
        save_machine(Machine(host=self.machine, command=f"{sys.executable} -S -E {program} {self._folder}"))

    @property
    def end(self) -> Event | None:
        return next((event for event in self.events if isinstance(event, Done | Failed)), None)

    def take(self, event: Event) -> None:
        """Keep an event of the job."""
        self.events.append(event)
        self.last = time.monotonic()

    @property
    def is_silent(self) -> bool:
        """True if nothing has come for a while."""
        patience = START_SECONDS
        for name, seconds in (("begun", BEGUN_SECONDS), ("said", SILENCE_SECONDS)):
            if (self._folder / name).exists():
                patience = seconds
        if patience != self._patience:
            self._patience, self.last = patience, time.monotonic()
        return time.monotonic() - self.last > patience

    def check(self, report: Report) -> None:
        """Count how it ended, and what it should not have done."""
        end = self.end
        if end is None:
            report.note("hung", self.case.name, self.events[-2:])
            return
        report.failed += isinstance(end, Failed)
        report.done += isinstance(end, Done) and not end.cancelled
        report.cancelled += isinstance(end, Done) and end.cancelled
        for event in self.events:
            for text in _texts(event):
                if not text.isprintable() or len(text) > 70_000:
                    report.note("unreadable", self.case.name, ascii(text[:200]))
        if isinstance(end, Failed) and not end.error.endswith((".", "?", ")", "...")):
            report.note("unreadable", self.case.name, end.error)
        self._check_store(report)

    def _check_store(self, report: Report) -> None:
        file = self._folder / "results.sqlite"
        with Store(file) as store:
            store.save_study(StudySpec(name="evil", models=(DEMO,), configurations=(Configuration(),)), (SPEC, OTHER))
            recorder = Recorder(store, self.case.job)
            for event in self.events:
                try:
                    recorder.record(event)
                except Exception as error:
                    report.note("foreign_rows", self.case.name, f"{type(event).__name__}: {error!r}")
        asked = {(SPEC.content_hash(), unit) for unit in UNITS} if isinstance(self.case.job, EvaluateJob) else set()
        with closing(sqlite3.connect(file)) as database:
            rows = database.execute("SELECT hash, unit FROM units JOIN runs ON runs.id = run_id").fetchall()
        if not set(rows) <= asked or len(set(rows)) < len(rows):
            report.note("foreign_rows", self.case.name, rows)


def _texts(event: Event) -> list[str]:
    """Return the lines that an event may show in a terminal."""
    match event:
        case Failed() | RunFailed():
            return [event.error, *event.detail.split("\n")]
        case Log():
            return event.text.split("\n")
    return [str(getattr(event, name, "")) for name in ("hardware", "metric", "unit", "error")]


def _clients(name: str) -> Sequence[Callable[[Callable[[Event], None]], MachineClient]]:
    return [partial(MachineClient, machine=find_machine(name), cancel_grace=GRACE_SECONDS)]


def _try_together(trials: list[_Trial], honest: FakeMachine, report: Report) -> None:
    by_id, events = {trial.id: trial for trial in trials}, Events()

    def on_event(event: Event) -> None:
        if (trial := by_id.get(getattr(event, "job_id", None) or "")) is not None:
            trial.take(event)
        else:
            events(event)

    pool = EnginePool(on_event, machines=_clients)
    good = evaluate(SPEC, OTHER)
    pool.send(Submit(job_id="honest", job=good, machines=(honest.name,)))
    for trial in trials:
        pool.send(Submit(job_id=trial.id, job=trial.case.job, machines=(trial.machine,)))
        trial.last = time.monotonic()
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline and any(trial.end is None for trial in trials):
        for trial in trials:
            if trial.end is None and not trial.cancelled and trial.is_silent:
                trial.cancelled = True
                pool.send(Cancel(job_id=trial.id))
        time.sleep(0.05)
    pool.send(Submit(job_id="later", job=EVALUATE, machines=(honest.name,)))
    for job_id in ("honest", "later"):
        if (end := events.end(job_id)) != Done(job_id=job_id):
            report.note("others_failed", job_id, end)
    pool.stop()
    for trial in trials:
        trial.check(report)


def run(count: int, folder: Path) -> Report:
    """Try so many cases and return the report; WINA_HOME and PATH are changed."""
    start, report = time.monotonic(), Report()
    os.environ["WINA_HOME"] = str(folder / "home")
    install_fake_ssh(folder / "bin")
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    honest = FakeMachine(folder / "machines", "honest")
    chosen = cases(count)
    trials = [_Trial(number, case, folder) for number, case in enumerate(chosen)]
    for first in range(0, len(trials), TOGETHER):
        _try_together(trials[first : first + TOGETHER], honest, report)
        print(f"{first}: {time.monotonic() - start:.0f} s", *report.found, sep="\n", file=sys.stderr)
    report.cases = len(chosen)
    honest.end()
    report.left = len(_left(str(folder)))
    report.seconds = round(time.monotonic() - start, 1)
    return report


def _left(folder: str) -> list[psutil.Process]:
    """Return the processes of this trial that still run, after some time to end."""
    found: list[psutil.Process] = []
    for _ in range(1200):
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if process.pid != os.getpid() and any(folder in word or word.startswith("evil-") for word in command):
                found.append(process)
        if not found:
            break
        time.sleep(0.1)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report as JSON and a verdict; return 1 if anything went wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200)
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wina-evil-") as folder:
        report = run(chosen.cases, Path(folder))
    print(json.dumps(asdict(report)))
    print(f"{report.cases} hostile engines: {report.faults or 'no'} faults", file=sys.stderr)
    return int(bool(report.faults))


if __name__ == "__main__":
    sys.exit(main())
