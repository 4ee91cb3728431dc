"""Kill a PostgreSQL server and the programs that store in it at once, and look for anything lost or doubled.

    python -m tests.trust.postgres --writers 8 --metrics 100000 --client-kills 20 --server-kills 3

Kills are SIGKILL, at moments that the seed draws among the stored units. Afterwards the listing of all metrics is timed
beside that of an SQLite file with the same rows.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from sqlalchemy import Engine, create_engine, insert, select

from tests.trust.postgres_writer import METRICS, UNITS, all_runs, value_of
from tests.wina_core.store.postgres import Server, running
from wina_core.store import Store
from wina_core.store.connection import open_engine, parse_url
from wina_core.store.tables import StoreTable

END_SECONDS = 600.0
LISTINGS = 7


@dataclass
class Report:
    """Stored rows, errors, and the time of a listing."""

    writers: int
    metrics: int = 0
    client_kills: int = 0
    server_kills: int = 0
    lost: int = 0
    """Measurements that are missing or have another value."""
    doubled: int = 0
    """Measurements that are stored twice."""
    recomputed: int = 0
    """Units that were computed more than once, because their program was killed before they were stored."""
    unmarked: int = 0
    """Runs that are not done."""
    failed_writers: int = 0
    seconds: float = 0.0
    listing_ratio: float = 0.0
    """Time of the first listing over SQLite's."""
    relisting_ratio: float = 0.0
    """The same of a listing made again after one more result."""

    @property
    def faults(self) -> int:
        """Number of faults; recomputed units are none."""
        return self.lost + self.doubled + self.unmarked + self.failed_writers


class _Writers:
    """The writing programs, of which killed ones are started again."""

    def __init__(self, url: str, writers: int, runs: int, folder: Path) -> None:
        self._words = [sys.executable, "-m", "tests.trust.postgres_writer", url]
        self._numbers, self._folder = (writers, runs), folder
        self._running = {writer: self._start(writer) for writer in range(writers)}

    def _start(self, writer: int) -> subprocess.Popen[bytes]:
        words = [*self._words, str(writer), *map(str, self._numbers)]
        settings = os.environ | {"WINA_HOME": str(self._folder / "home")}
        with (self._folder / f"{writer}.out").open("ab") as out, (self._folder / f"{writer}.err").open("ab") as err:
            return subprocess.Popen(words, env=settings, stdout=out, stderr=err, cwd=Path(__file__).parents[2])

    def kill(self, draw: random.Random) -> bool:
        """Kill one that has not ended, and start it again."""
        living = [writer for writer, process in self._running.items() if process.poll() is None]
        if not living:
            return False
        writer = draw.choice(living)
        self._running[writer].kill()
        self._running[writer].wait()
        self._running[writer] = self._start(writer)
        return True

    def all_ended(self) -> bool:
        return all(process.poll() is not None for process in self._running.values())

    def end(self) -> int:
        """End all; return how many did not end well by themselves."""
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
        return sum(process.wait() != 0 for process in self._running.values())

    def computed(self) -> list[str]:
        """Return a line for each unit that was computed."""
        return [line for file in self._folder.glob("*.out") for line in file.read_text().splitlines()]


def run(writers: int, metrics: int, client_kills: int, server_kills: int, seed: int = 1) -> Report:
    """Store about so many metrics under kills, and check what is stored."""
    runs = all_runs(max(1, metrics // (METRICS * len(UNITS))))
    report, draw = Report(writers), random.Random(seed)
    with running() as server, tempfile.TemporaryDirectory() as temporary:
        url, folder = server.create(), Path(temporary)
        begun = time.monotonic()
        programs = _Writers(url, writers, len(runs), folder)
        units = len(runs) * len(UNITS)
        kills = sorted(
            (draw.uniform(0.02, 0.95) * units, kind)
            for kind, count in (("client", client_kills), ("server", server_kills))
            for _ in range(count)
        )
        while not programs.all_ended() and time.monotonic() < begun + END_SECONDS:
            if kills and _stored(server, url) >= kills[0][0]:
                kind = kills.pop(0)[1]
                if kind == "server":
                    with server.killed():
                        time.sleep(draw.uniform(0.0, 2.0))
                    report.server_kills += 1
                else:
                    report.client_kills += programs.kill(draw)
            time.sleep(0.02)
        report.seconds = time.monotonic() - begun
        report.failed_writers = programs.end()
        computed = programs.computed()
        report.recomputed = len(computed) - len(set(computed))
        _check(url, {spec.content_hash() for spec in runs}, report)
        _time_listings(url, folder / "results.sqlite", report)
        for file in folder.glob("*.err"):
            sys.stderr.write(file.read_text())
    return report


def _stored(server: Server, url: str) -> int:
    try:
        return int(server.execute("SELECT count(*) FROM units", url)[0][0])
    except (psycopg.OperationalError, psycopg.errors.UndefinedTable):  # not made yet, or gone
        return 0


def _check(url: str, runs: set[str], report: Report) -> None:
    with Store(url) as store:
        rows = store.metric_rows()
        report.unmarked = sum(row.status != "done" for row in store.runs())
    found = [(row.run, row.unit, row.metric) for row in rows]
    wrong = {
        key for key, row in zip(found, rows, strict=True) if row.value != value_of(key[0], key[1], int(key[2][7:]))
    }
    wanted = {(run, unit, f"metric {number}") for run in runs for unit in UNITS for number in range(METRICS)}
    report.metrics, report.doubled = len(found), len(found) - len(set(found))
    report.lost = len(wanted - (set(found) - wrong))


def _time_listings(url: str, file: Path, report: Report) -> None:
    Store(file).close()
    engines = create_engine(parse_url(url)), open_engine(parse_url(file), foreign_keys=False)
    _copy(*engines)
    for engine in engines:
        engine.dispose()
    with Store(url) as here, Store(file) as there:
        report.listing_ratio = _ratio(here, there, _forget)
        report.relisting_ratio = _ratio(here, there, lambda _store: None)


def _ratio(here: Store, there: Store, before: Callable[[Store], None]) -> float:
    """Return the time of a listing here over that there, medians of alternating ones."""
    times: dict[Store, list[float]] = {here: [], there: []}
    for _ in range(LISTINGS):
        for store, taken in times.items():
            before(store)
            begun = time.perf_counter()
            store.metrics()
            taken.append(time.perf_counter() - begun)
    return statistics.median(times[here]) / statistics.median(times[there])


def _forget(store: Store) -> None:
    store._metrics = None


def _copy(source: Engine, target: Engine) -> None:
    with source.connect() as reading, target.execution_options(writing=True).begin() as writing:
        for table in StoreTable.metadata.sorted_tables:
            if rows := [dict(row) for row in reading.execute(select(table)).mappings()]:
                writing.execute(insert(table), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--metrics", type=int, default=100_000)
    parser.add_argument("--client-kills", type=int, default=20)
    parser.add_argument("--server-kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    outcome = run(options.writers, options.metrics, options.client_kills, options.server_kills, options.seed)
    print(json.dumps(asdict(outcome), indent=1))
    sys.exit(bool(outcome.faults))
