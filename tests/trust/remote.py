"""A study on a machine over a real sshd: the rows are those of here, whatever becomes of the connection.

    python -m tests.trust.remote --cuts 50 --rounds 9

While the study runs there, the connection is cut at random moments: by the end of sshd's process or of the ssh client,
by an sshd that is down for a while, and by a laptop that sleeps, which is a stopped bridge and ssh. The results of each
study are compared with those of this computer. Then engines here and there compute short runs in turns.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from tests.trust.kills import STUDY
from tests.trust.stored_study import Results, StoredStudy
from tests.wina_core.engine.engine_events import Events
from tests.wina_core.remote.machines.sshd import SshServer, running_sshd
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Done, EvaluateJob, Event, Log, Partial, PendingRun, Started, Submit
from wina_core.remote.cluster.places import open_place
from wina_core.remote.machines.registry import save_machine
from wina_core.specs import RunSpec
from wina_core.specs.machine import LOCAL, FolderPair
from wina_core.store import Store
from wina_core.store.recorder import Recorders
from wina_core.studies.expand import labelled, specs_of
from wina_core.studies.gallery import find_study

MOST_SECONDS = 5.0
"""Time from a new connection until all that waits there has arrived."""
MOST_OVERHEAD = 1.1
END_SECONDS = 300.0
BRIDGE = "wina_core.remote.engine.bridge"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


@dataclass
class Report:
    """Counts of what went wrong; all but the cuts, studies and times must be 0."""

    cuts: dict[str, int] = field(default_factory=dict)
    studies: int = 0
    differing: int = 0
    """Tables that are not those of the local engine, to the last digit."""
    doubled: int = 0
    """Measurements that came or are stored twice."""
    failed: int = 0
    """Studies that did not end as usual."""
    orphans: int = 0
    reconnected: list[float] = field(default_factory=list)
    """Seconds from the end of each trouble to the new connection."""
    delivered: list[float] = field(default_factory=list)
    """Seconds from there until nothing waits."""
    seconds: float = 0.0
    overhead: "Overhead | None" = None

    @property
    def faults(self) -> int:
        """Number of all faults."""
        return self.differing + self.doubled + self.failed + self.orphans

    @property
    def late(self) -> int:
        """Number of deliveries that took too long, which depends on the machine."""
        return sum(each > MOST_SECONDS for each in self.delivered)


@dataclass
class Overhead:
    """Seconds of the same runs in an engine here and in one over ssh, which had both computed before."""

    runs: int
    local: list[float]
    ssh: list[float]
    start_local: float
    """Seconds from a job to the first engine's Ready, of each kind."""
    start_ssh: float

    @property
    def ratio(self) -> float:
        """Return the median of the ratios, one for each turn."""
        return statistics.median(ssh / local for ssh, local in zip(self.ssh, self.local, strict=True))


class Place:
    """A pool with one engine, on this computer or on the machine, and its studies."""

    def __init__(self, machine: str, folder: Path) -> None:
        self.machine, self._folder = machine, folder
        self.events = Events()
        self._recorders: Recorders | None = None
        self.start = 0.0
        """Seconds from the first job's request to its beginning, with the start of the engine."""
        self.pool = EnginePool(self._on_event, [{"OMP_NUM_THREADS": "1"}], machines=open_place)
        self._studies = 0

    def _on_event(self, event: Event) -> None:
        kinds = "ready run_started partial run_failed failed done"
        if self._recorders is not None and event.type in kinds.split():
            self._recorders.record(event)  # type: ignore[arg-type]
        self.events(event)

    def compute(self, runs: Sequence[RunSpec], study: Path, meanwhile: Callable[[str], None] = lambda _: None) -> Path:
        """Compute runs into a new database; return its folder."""
        self._studies += 1
        job_id = f"{self.machine}-{self._studies}"
        home = self._folder / job_id
        home.mkdir()
        with Store(home / "results.sqlite") as store:
            named = find_study(str(study))
            store.save_study(named, labelled(named))
            job = EvaluateJob(runs=tuple(store.pending(runs, samples=True)), samples=True)
            self._recorders = Recorders(store)
            submit = Submit(job_id=job_id, job=job, machines=(self.machine,))
            self._recorders.record(submit)
            begun = time.monotonic()
            self.pool.send(submit)
            self.events.wait(Started, lambda event: event.job_id == job_id)
            self.start = self.start or round(time.monotonic() - begun, 2)
            meanwhile(job_id)
            self.ended = self.events.end(job_id) == Done(job_id=job_id)
            self.partials = Counter(
                (event.unit.run, event.unit.unit) for event in self.events.of(job_id) if isinstance(event, Partial)
            )
            self._recorders = None
        return home

    def time(self, runs: Sequence[RunSpec]) -> float:
        """Return the seconds of runs from the request to their end."""
        self._studies += 1
        job_id = f"timed-{self._studies}"
        job = EvaluateJob(runs=tuple(PendingRun(spec=spec, units=spec.evaluation.units) for spec in runs))
        begun = time.perf_counter()
        self.pool.send(Submit(job_id=job_id, job=job, machines=(self.machine,)))
        assert self.events.end(job_id) == Done(job_id=job_id), self.events.of(job_id)[-3:]
        return time.perf_counter() - begun


class Cutter:
    """Troubles of the connection to a machine."""

    def __init__(self, server: SshServer, place: Place, report: Report, chance: random.Random) -> None:
        self._server, self._place, self._report, self._chance = server, place, report, chance
        self._ways = {
            "sshd's process": self._end_server,
            "ssh": self._end_client,
            "sleep": self._sleep,
            "sshd": self._down,
        }

    def cut(self, job_id: str, most: int) -> None:
        """Cut at random moments while a job runs, up to so many times in all."""
        events = self._place.events
        self._wait(lambda: any(isinstance(event, Partial) for event in events.of(job_id)) or self._over(job_id))
        while sum(self._report.cuts.values()) < most and not self._over(job_id):
            time.sleep(self._chance.uniform(0.0, 1.0))
            if not self._over(job_id):
                name = self._chance.choice([*self._ways, "sshd's process", "ssh"])
                self._measure(name)

    def _measure(self, name: str) -> None:
        connected = self._connections()
        self._ways[name]()
        over = time.monotonic()
        self._report.cuts[name] = self._report.cuts.get(name, 0) + 1
        if name == "sleep":
            return self._wait_delivered()
        self._wait(lambda: self._connections() > connected)
        self._report.reconnected.append(round(time.monotonic() - over, 2))
        return self._wait_delivered()

    def _wait_delivered(self) -> None:
        begun = time.monotonic()
        spools = list(self._server.home.glob("wina/data/engines/*/events"))
        self._wait(lambda: all(not spool.exists() or spool.stat().st_size < 200 for spool in spools))
        self._report.delivered.append(round(time.monotonic() - begun, 2))

    def _connections(self) -> int:
        return sum(isinstance(event, Log) and "connected again" in event.text for event in list(self._place.events.all))

    def _over(self, job_id: str) -> bool:
        return any(getattr(event, "type", "") in ("done", "failed") for event in self._place.events.of(job_id))

    def _wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + END_SECONDS
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)

    def _end_server(self) -> None:
        for process in self._server.connections():
            with suppress(psutil.Error):
                process.kill()

    def _bridges(self) -> list[psutil.Process]:
        return [process for process in psutil.Process().children() if BRIDGE in process.cmdline()]

    def _end_client(self) -> None:
        for bridge in self._bridges():
            for process in bridge.children():
                with suppress(psutil.Error):
                    process.kill()

    def _sleep(self) -> None:
        bridges = self._bridges()
        asleep = [*bridges, *(child for bridge in bridges for child in bridge.children())]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in asleep:
                with suppress(psutil.Error):
                    process.send_signal(number)
            if number == signal.SIGSTOP:
                time.sleep(self._chance.uniform(1.0, 4.0))

    def _down(self) -> None:
        self._server.stop()
        time.sleep(self._chance.uniform(0.5, 3.0))
        self._server.start()


def run(cuts: int, rounds: int, seed: int, folder: Path) -> Report:
    """Cut so often, then time so many rounds; return the report. WINA_HOME is changed."""
    os.environ["WINA_HOME"], os.environ["OMP_NUM_THREADS"] = str(folder / "here"), "1"
    from tests.wina_core.tiny import tiny_folder, tiny_text  # torch: needed once

    begun, report = time.monotonic(), Report()
    model, text, study = tiny_folder(folder / "model"), Path(tiny_text(folder)), folder / "study.toml"
    study.write_text(STUDY.format(model=model.as_posix(), text=text.as_posix()))
    runs = specs_of(labelled(find_study(str(study))))
    with running_sshd() as server:
        away = server.home / "work"
        away.mkdir()
        _copy(folder, away, model, text)
        server.give(away)
        pair = FolderPair(here=str(folder), there=str(away))
        save_machine(server.machine(folders=(pair,)))
        here, there = Place(LOCAL, folder), Place("away", folder)
        expected = StoredStudy(here.compute(runs, study) if rounds else _compute_in_process(study, folder)).results()
        cutter = Cutter(server, there, report, random.Random(seed))
        while sum(report.cuts.values()) < cuts or not report.studies:
            home = there.compute(runs, study, lambda job_id: cutter.cut(job_id, cuts))
            _check(home, there, expected, report)
        if rounds:
            report.overhead = _compare(here, there, runs, rounds)
        here.pool.stop()
        there.pool.stop()
        report.orphans = _orphans(server)
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def _compute_in_process(study: Path, folder: Path) -> Path:
    """Compute a study without an engine; return the folder of its database."""
    from tests.trust.inputs import called

    code, _, errors = called(f"study run {study} --log-samples --engines 1 --database {folder / 'results.sqlite'}")
    assert code == 0, errors
    return folder


def _copy(here: Path, there: Path, *sources: Path) -> None:
    for source in sources:
        target = there / source.relative_to(here)
        files = [source] if source.is_file() else [file for file in source.rglob("*") if file.is_file()]
        for file in files:
            copy = target / file.relative_to(source) if source.is_dir() else target
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def _check(home: Path, place: Place, expected: Results, report: Report) -> None:
    stored = StoredStudy(home)
    report.studies += 1
    report.failed += not place.ended
    report.doubled += stored.doubled() + sum(count > 1 for count in place.partials.values())
    found = stored.results()
    for table in (table for table in expected if found[table] != expected[table]):
        report.differing += 1
        odd = sorted({*map(repr, found[table])} ^ {*map(repr, expected[table])})
        print(f"{home.name}: {table} differ in {len(odd)} rows, such as {odd[:2]}", file=sys.stderr)


def _orphans(server: SshServer) -> int:
    """Count the processes of the engine that are left there after a while; sshd and its shells do not count."""
    end = time.monotonic() + 120.0
    while (left := _processes(server)) and time.monotonic() < end:
        time.sleep(0.1)
    return len(left)


def _processes(server: SshServer) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("WINA_HOME") == server.environment["WINA_HOME"]:
                found.append(" ".join(process.cmdline()))
    return found


def _compare(here: Place, there: Place, runs: Sequence[RunSpec], rounds: int) -> Overhead:
    """Time the same runs in turns."""
    seconds: dict[str, list[float]] = {LOCAL: [], there.machine: []}
    for number in range(rounds + 1):
        for place in (here, there) if number % 2 else (there, here):
            took = place.time(runs)
            if number:  # the first round loads
                seconds[place.machine].append(round(took, 4))
    return Overhead(len(runs), seconds[LOCAL], seconds[there.machine], here.start, there.start)


def write(report: Report, file: Path) -> None:
    """Write the measurements of a report."""
    assert report.overhead is not None
    content = {
        "benchmark": "remote",
        "threads": 1,
        "load": os.getloadavg()[0],
        "cuts": report.cuts,
        "studies": report.studies,
        "faults": report.faults + report.late,
        "reconnected_seconds": _spread(report.reconnected),
        "delivered_seconds": _spread(report.delivered),
        "runs": report.overhead.runs,
        "local_seconds": _spread(report.overhead.local),
        "ssh_seconds": _spread(report.overhead.ssh),
        "start_seconds": {"local": report.overhead.start_local, "ssh": report.overhead.start_ssh},
        "bars": [
            _bar("ssh / local", MOST_OVERHEAD, report.overhead.ratio),
            _bar("delivered after reconnecting", MOST_SECONDS, max(report.delivered, default=0.0)),
        ],
    }
    file.write_text(json.dumps(content, indent=1) + "\n")


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds) or [0.0]
    return {"median": statistics.median(ordered), "worst": ordered[-1], "repetitions": len(seconds)}


def _bar(name: str, wanted: float, measured: float) -> dict[str, object]:
    return {"bar": name, "wanted": wanted, "measured": measured, "met": measured <= wanted}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report as JSON and a verdict; return 1 if anything went wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cuts", type=int, default=50)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path, default=RESULTS / "remote-cpu.json")
    chosen = options.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wina-remote-") as folder:
        report = run(chosen.cuts, chosen.rounds, chosen.seed, Path(folder))
    print(json.dumps(asdict(report)))
    if report.overhead is not None:
        write(report, chosen.out)
        print(f"ssh takes {report.overhead.ratio:.3f} times as long", file=sys.stderr)
    print(
        f"{sum(report.cuts.values())} cuts, {report.studies} studies: {report.faults or 'no'} faults, "
        f"{report.late or 'none'} late",
        file=sys.stderr,
    )
    slow = report.overhead is not None and report.overhead.ratio > MOST_OVERHEAD
    return int(bool(report.faults or report.late) or slow)


if __name__ == "__main__":
    sys.exit(main())
