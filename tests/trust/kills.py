"""Kill what computes a study, again and again, and look for anything lost, doubled, damaged or left behind.

    python -m tests.trust.kills --kills 200 --seed 1

Each scenario kills at moments that the seed draws, mostly by SIGKILL, sometimes by SIGTERM, SIGHUP or SIGINT: the
process of a background job or its engine, the command line that computes in its own process, the window or its engine,
and the command line or one of its two engines. It checks the database after every kill, and after every tenth, and
wherever a study is complete, the measurements against those of an undisturbed run.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.trust.attack import counted, options, verdict
from tests.trust.killed_programs import (
    Background,
    Program,
    draw_moment,
    engines_of,
    in_engines,
    in_process,
    in_window,
    send,
    wait_until_gone,
)
from tests.trust.stored_study import Results, StoredStudy, Units

STUDY = """\
name = "killed"
sparsities = [0.3, 0.6]
models = [{{ location = "{model}" }}]
[calibration]
text = {{ source = "{text}", tokens = 512, sequence = 64 }}
[evaluation]
tasks = ["demo_choice", "demo_ppl"]
limit = 2
fidelity = {{ source = "{text}", tokens = 128, sequence = 32 }}
[[configurations]]
[[configurations]]
method = {{ name = "wina" }}
rotation = {{ mode = "global", attention_basis = ["qkv"], mlp_basis = ["gate_up"] }}
[[configurations]]
method = {{ name = "teal", selection = "threshold" }}
"""
SIGNALS = (*[signal.SIGKILL] * 7, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
ORPHAN_SECONDS = 120.0
"""Time for the processes of a killed program to end by themselves."""
END_SECONDS = 900.0
"""Time for a study that nobody disturbs, and for a program that a signal asked to end."""
ROUND = 10
"""Kills after which a study is computed to its end."""


@dataclass
class Report:
    """The kills, and counts of what went wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    """By scenario."""
    studies: int = 0
    """Studies computed to their end."""
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    """Measurements that a kill removed or changed ("lost") or that are stored twice ("doubled"), processes that
    outlived their program or a signal that asked them to end ("orphans"), what SQLite finds wrong ("damages"), runs
    marked as waiting or running although nobody computes them ("unmarked"), and tables of finished studies that differ
    from those of the undisturbed one ("differing")."""


@dataclass
class Scenario:
    """A way to compute the study, and who is killed."""

    name: str
    share: int
    """Kills of this scenario out of those of all."""
    start: Callable[[Path, Path], Program]
    engine_share: float
    """Fraction of the kills that hit an engine instead of the whole program."""
    inside: float = 0.0
    """Fraction of the kills that the program does itself, at a moment inside it."""


SCENARIOS = (
    Scenario("command line", 6, in_process, engine_share=0.0, inside=0.5),
    Scenario("window", 1, in_window, engine_share=0.5),
    Scenario("engines", 3, in_engines, engine_share=0.75),
    Scenario("background", 2, Background, engine_share=0.3),  # resumes the jobs of all before it
)


class Killer:
    """One study file, computed in a new folder for every round by programs that are killed."""

    def __init__(self, study: Path, folder: Path, report: Report, seconds: float, expected: Results) -> None:
        """`seconds` is the time that the study takes, `expected` what it gives, undisturbed."""
        self._study, self._folder, self._report = study, folder, report
        self._seconds, self._expected = seconds, expected
        self._rounds = 0
        self._program: Program | None = None
        self._begin_round()

    def kill(self, scenario: Scenario, kills: int, chance: random.Random) -> None:
        """Kill programs of a scenario so many times. The next scenario's programs continue the study."""
        self._scenario, self._chance = scenario, chance
        while self._report.kills[scenario.name] < kills:
            if self._kill_once():
                self._report.kills[scenario.name] += 1
                self._in_round += 1
            if self._in_round == ROUND or self._complete:
                self._finish_round()
        if self._program is not None:
            self._finish_round()

    def finish(self) -> None:
        """Compute the study of the last round to its end, and compare it."""
        if self._in_round:
            self._finish_round()

    def _begin_round(self) -> None:
        self._rounds += 1
        self._in_round, self._complete = 0, False
        self._home = self._folder / f"round-{self._rounds}-{os.getpid()}"
        self._home.mkdir()
        self._stored = StoredStudy(self._home)

    def _kill_once(self) -> bool:
        """Kill at a random moment; False if the study was complete before."""
        chance, scenario = self._chance, self._scenario
        if self._program is None and chance.random() < scenario.inside:
            before = self._stored.units()
            code = in_process(self._study, self._home, draw_moment(chance)).wait(END_SECONDS)
            self._check_end(code, None, before)
            return not self._complete
        program = self._program = self._program or scenario.start(self._study, self._home)
        number, hits_engine, which = chance.choice(SIGNALS), chance.random() < scenario.engine_share, chance.random()
        code = self._wait_for_a_moment(program)
        if code is not None:
            self._check_end(code, None, {})
            return False
        before = self._stored.units()
        engines = engines_of(self._home) if hits_engine else []
        if engines:
            send(engines[int(which * len(engines))], number if number == signal.SIGTERM else signal.SIGKILL)
            self._check_stored(before)
            return True
        send(program.pid, number)
        code = program.wait(END_SECONDS)
        self._check_end(code, number, before)
        return True

    def _wait_for_a_moment(self, program: Program) -> int | None:
        """Wait for a random moment, mostly one while runs are computed; return the exit code if it ends before."""
        chance, deadline = self._chance, time.monotonic() + END_SECONDS
        starting, more, delay = chance.random() < 0.15, chance.randint(0, 3), chance.random()
        if starting:
            return program.wait(delay * self._seconds)
        wanted = len(self._stored.units()) + more
        while len(self._stored.units()) < wanted or not self._stored.running():
            if (code := program.wait(0.05)) is not None or time.monotonic() > deadline:
                return code
        return program.wait(delay * self._seconds / 10)

    def _check_end(self, code: int | None, number: int | None, before: Units) -> None:
        """Check what a program that has ended left behind; `code` is None if it has not."""
        self._program = None
        self._report.faults["orphans"] += len(wait_until_gone(self._home, 0.0 if code is None else ORPHAN_SECONDS))
        if number is not None and code == 128 + number:  # it ended by itself, and marked its runs
            self._report.faults["unmarked"] += self._stored.unfinished()
        self._stored.open_again()
        self._report.faults["unmarked"] += self._stored.unfinished()
        self._complete = code == 0 and self._stored.is_done()  # a window ends with 0 after a signal, too
        self._check_stored(before)

    def _check_stored(self, before: Units) -> None:
        after = self._stored.units()
        self._report.faults["lost"] += sum(after.get(key) != values for key, values in before.items())
        self._report.faults["doubled"] += self._stored.doubled()
        self._report.faults["damages"] += self._stored.damages()

    def _finish_round(self) -> None:
        """Compute the study to its end, compare it, and begin another one."""
        if self._program is not None:  # engines were killed, and it goes on by itself
            before = self._stored.units()
            self._check_end(self._program.wait(END_SECONDS), None, before)
        if not self._complete:
            before = self._stored.units()
            self._check_end(in_process(self._study, self._home).wait(END_SECONDS), None, before)
        self._report.studies += 1
        results, expected = self._stored.results(), self._expected
        for table in (table for table in expected if results[table] != expected[table]):
            self._report.faults["differing"] += 1
            odd = sorted({*map(repr, results[table])} ^ {*map(repr, expected[table])})
            print(f"{self._home.name}: {table} differ in {len(odd)} rows, such as {odd[:2]}", file=sys.stderr)
        self._begin_round()


def undisturbed(study: Path, folder: Path) -> tuple[Results, float]:
    """Compute the study undisturbed; return its rows, and the seconds from its first measurement to the end."""
    home = folder / f"undisturbed-{os.getpid()}"
    home.mkdir()
    stored, program, begun = StoredStudy(home), in_process(study, home), time.monotonic()
    while (code := program.wait(0.05)) is None:
        begun = begun if stored.units() else time.monotonic()
    if code != 0:
        raise SystemExit((home / "output.txt").read_text())
    return stored.results(), time.monotonic() - begun


def run(kills: int, seed: int, folder: Path) -> Report:
    """Kill so many times and return the report; `folder` is for the model and the databases."""
    from tests.wina_core.tiny import tiny_folder, tiny_text  # torch: needed once

    start, report = time.monotonic(), Report()
    os.environ["OMP_NUM_THREADS"] = "1"
    study = folder / "killed.toml"
    model, text = tiny_folder(folder / "model"), Path(tiny_text(folder))
    study.write_text(STUDY.format(model=model.as_posix(), text=text.as_posix()))
    expected, seconds = undisturbed(study, folder)
    total = sum(scenario.share for scenario in SCENARIOS)
    kills_of = [max(1, kills * scenario.share // total) for scenario in SCENARIOS]
    most = max(range(len(SCENARIOS)), key=lambda place: SCENARIOS[place].share)
    kills_of[most] += kills - sum(kills_of)
    killer = Killer(study, folder, report, seconds, expected)
    for scenario, share in zip(SCENARIOS, kills_of, strict=True):
        killer.kill(scenario, share, random.Random(f"{seed} {scenario.name}"))
    killer.finish()
    report.seconds = round(time.monotonic() - start, 1)
    return report


def main() -> int:
    """Kill, print the report, and return the exit status."""
    given = options(__doc__, kills=200, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        report = run(given.kills, given.seed, Path(folder))
    return verdict("kills", vars(report), counted(report.faults))


if __name__ == "__main__":
    sys.exit(main())
