"""Kill what computes a study, again and again, and look for anything lost, doubled, damaged or left behind.

    python -m tests.trust.kills --kills 200 --seed 1

Each scenario kills at moments that the seed draws, mostly by SIGKILL, sometimes by SIGTERM, SIGHUP or SIGINT: the
process of a background job or its engine, the command line that computes in its own process, the window or its engine,
and the command line or one of its two engines. It checks the database after every kill, and after every tenth, and
wherever a study is complete, the measurements against those of an undisturbed run.
"""

import itertools
import multiprocessing
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
from typing import Any

from tests.trust.attack import counted, options, verdict
from tests.trust.stored_study import Results, StoredStudy, Units
from wina_core.store import Store

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
MARKER = "WINA_TRUST_KILLS"
"""Environment variable of every process of a program, by which those left behind are found."""
ENGINE, BACKGROUND = "wina_core.engine ", "wina_core.cli jobs compute"
"""Parts of the command lines of an engine, and of the process with jobs in the background."""
HEAVY = [
    "torch",
    "wina_core.cli",
    "wina_core.api.running",
    "wina_core.engine.server.run_job",
    "wina_core.engine.server.evaluate",
    "wina_core.compute.evaluation.tasks",
    "transformers.models.llama.modeling_llama",  # by which the model's own import takes longest
]
"""Imported once by the server that each program is forked from."""
MOMENTS: tuple[tuple[str, int], ...] = (
    ("checks", 150),  # between two matrix products, mostly
    ("stored", 2),  # right after a measurement was stored
    ("commits", 6),  # with a transaction open
)
"""Events inside the program that are counted until it kills itself, and up to which number."""


# ---- programs ------------------------------------------------------------------------------------------------------


class Program:
    """A program in a process that is forked, which spares the imports."""

    def __init__(self, home: Path, target: Callable[..., object], *arguments: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(HEAVY)
        self._process = context.Process(target=_run, args=(home, target, *arguments))
        self._process.start()
        self.pid = self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, negative for a signal; None if it still runs after so many seconds."""
        self._process.join(seconds)
        return self._process.exitcode


class Background:
    """The process with a study's job in the background, which a command starts or, after a kill, resumes."""

    def __init__(self, study: Path, home: Path) -> None:
        self._home, self._stored = home, StoredStudy(home)
        command = ["study", "run", str(study), "--log-samples", "--background"]
        if self._stored.rows("SELECT job_id, title FROM jobs"):
            command = ["jobs", "resume"]
        Program(home, _command_line, home, [*command, "--engines", "1"]).wait(300.0)
        self.pid = next(iter(processes_of(home, BACKGROUND)), None)

    def wait(self, seconds: float) -> int | None:
        """Return 0 once the study is done, 1 if the process ended before; None if it still runs."""
        deadline = time.monotonic() + seconds
        while processes_of(self._home, BACKGROUND):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        return 0 if self._stored.is_done() else 1


def by_command(engines: int, study: Path, home: Path, moment: tuple[str, int] | None = None) -> Program:
    """Compute the study by `wina study run`, which kills itself at the moment."""
    return Program(
        home, _command_line, home, ["study", "run", str(study), "--log-samples", "--engines", str(engines)], moment
    )


def in_process(study: Path, home: Path, moment: tuple[str, int] | None = None) -> Program:
    """Compute the study in the command line's own process."""
    return by_command(1, study, home, moment)


def in_engines(study: Path, home: Path) -> Program:
    """Compute the study in two engines of the command line."""
    return by_command(2, study, home)


def in_window(study: Path, home: Path) -> Program:
    """Compute the study in the window, which closes at its end."""
    return Program(home, _show, study, home)


def _run(home: Path, target: Callable[..., object], *arguments: object) -> None:
    os.environ.update({"WINA_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", MARKER: home.name})
    with (home / "output.txt").open("a") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.exit(target(*arguments))  # type: ignore[arg-type]  # an exit code or None


def _command_line(home: Path, command: list[str], moment: tuple[str, int] | None = None) -> None:
    if moment is not None:
        _kill_at(*moment)
    from wina_core.cli import main

    sys.argv = ["wina", *command, "--database", str(home / "results.sqlite")]
    main()


def _kill_at(what: str, number: int) -> None:
    """Have this process kill itself when the number is reached."""
    from sqlalchemy import Engine, event

    from wina_core.api.progress import TerminalReporter

    def count(*_: object) -> None:
        if next(counter) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(method: Callable[..., Any]) -> Callable[..., Any]:
        def both(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            count()
            return result

        return both

    counter = itertools.count(1)
    match what:
        case "checks":
            TerminalReporter.check = after(TerminalReporter.check)  # type: ignore[method-assign]
        case "stored":
            Store.record_unit = after(Store.record_unit)  # type: ignore[method-assign]
        case "commits":
            event.listen(Engine, "commit", count)


def _show(study: Path, home: Path) -> int:
    """Open the window, compute the study's missing measurements, and close at their end."""
    from wina_app.__main__ import main
    from wina_app.application import Application
    from wina_app.services.settings import Settings

    from wina_core.jobs import EvaluateJob
    from wina_core.studies.expand import labelled, specs_of
    from wina_core.studies.gallery import find_study

    Settings().update(confirm_quit=False)
    start = Application.start

    def queue(store: Store) -> EvaluateJob:
        spec = find_study(str(study))
        named = labelled(spec)
        store.save_study(spec, named)
        return EvaluateJob(runs=tuple(store.pending(specs_of(named), samples=True)), samples=True)

    def start_and_compute(self: Application, *arguments: Any) -> None:
        start(self, *arguments)
        self.workbench.jobs.ended.connect(lambda _: self.window.close())
        self.workbench.store.ask(queue, lambda job: self.workbench.submit(job, "killed"))

    Application.start = start_and_compute  # type: ignore[method-assign]
    return main(["--database", str(home / "results.sqlite"), "--engines", "1"])


def processes_of(home: Path, part: str = "") -> list[int]:
    """Return the process ids of this folder's programs whose command lines have the `part`, in order."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                marked = f"{MARKER}={home.name}".encode() in (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_zombie = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:  # it ended meanwhile, or is another user's
                continue
            if marked and part in command and not is_zombie:
                found.append(int(folder.name))
    return sorted(found)


def wait_until_gone(home: Path, seconds: float) -> int:
    """Wait until no process of the folder's programs is left; kill and count those that are after so long."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        send(pid, signal.SIGKILL)
    return len(left)


def send(pid: int | None, number: int) -> None:
    """Send a signal if the process is there."""
    try:
        os.kill(pid or 0, number) if pid else None
    except ProcessLookupError:
        return


# ---- kills ---------------------------------------------------------------------------------------------------------


@dataclass
class KillReport:
    """The kills, and counts of what went wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    """By scenario."""
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
    start: Callable[[Path, Path], Program | Background]
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

    def __init__(self, study: Path, folder: Path, report: KillReport) -> None:
        self._study, self._folder, self._report, self._rounds = study, folder, report, 0
        self._program: Program | Background | None = None
        self._expected, self._seconds = undisturbed(study, folder)
        self._begin_round()

    def kill(self, scenario: Scenario, kills: int, chance: random.Random) -> None:
        """Kill programs of a scenario so many times. The next scenario's programs continue the study."""
        while self._report.kills[scenario.name] < kills:
            if self._kill_once(scenario, chance):
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

    def _kill_once(self, scenario: Scenario, chance: random.Random) -> bool:
        """Kill at a random moment; False if the study was complete before."""
        if self._program is None and chance.random() < scenario.inside:
            before = self._stored.units()
            what, most = chance.choice(MOMENTS)
            program = in_process(self._study, self._home, (what, chance.randint(1, most)))
            self._check_end(program.wait(END_SECONDS), None, before)
            return not self._complete
        program = self._program = self._program or scenario.start(self._study, self._home)
        number, hits_engine, which = chance.choice(SIGNALS), chance.random() < scenario.engine_share, chance.random()
        code = self._wait_for_a_moment(program, chance)
        if code is not None:
            self._check_end(code, None, {})
            return False
        before = self._stored.units()
        engines = processes_of(self._home, ENGINE) if hits_engine else []
        if engines:
            send(engines[int(which * len(engines))], number if number == signal.SIGTERM else signal.SIGKILL)
            self._check_stored(before)
            return True
        send(program.pid, number)
        self._check_end(program.wait(END_SECONDS), number, before)
        return True

    def _wait_for_a_moment(self, program: Program | Background, chance: random.Random) -> int | None:
        """Wait for a random moment, mostly one while runs are computed; return the exit code if it ends before."""
        deadline = time.monotonic() + END_SECONDS
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
        self._report.faults["orphans"] += wait_until_gone(self._home, 0.0 if code is None else ORPHAN_SECONDS)
        if number is not None and code == 128 + number:  # it ended by itself, and marked its runs
            self._report.faults["unmarked"] += self._stored.unfinished()
        Store(self._stored.file).close()  # as the next program opens it
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


def run(kills: int, seed: int, folder: Path) -> KillReport:
    """Kill so many times and return the report; `folder` is for the model and the databases."""
    from tests.wina_core.tiny import tiny_folder, tiny_text  # torch: needed once

    start, report = time.monotonic(), KillReport()
    os.environ["OMP_NUM_THREADS"] = "1"
    study = folder / "killed.toml"
    model, text = tiny_folder(folder / "model"), Path(tiny_text(folder))
    study.write_text(STUDY.format(model=model.as_posix(), text=text.as_posix()))
    killer = Killer(study, folder, report)
    total = sum(scenario.share for scenario in SCENARIOS)
    shares = [max(1, kills * scenario.share // total) for scenario in SCENARIOS]
    shares[0] += kills - sum(shares)
    for scenario, share in zip(SCENARIOS, shares, strict=True):
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
