"""Programs that compute a study and are killed: the command line, its engines, and the window."""

import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tests.trust.stored_study import StoredStudy

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
"""Imported once by the server that each command line is forked from."""
MOMENTS: tuple[tuple[str, int], ...] = (
    ("checks", 150),  # between two matrix products, mostly
    ("stored", 2),  # right after a measurement was stored
    ("commits", 6),  # with a transaction open
)
"""Events inside the program that are counted until it kills itself, and up to which number."""


class Program(Protocol):
    """A running program."""

    @property
    def pid(self) -> int | None:
        """Its process id."""

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, negative for a signal; None if it still runs after so many seconds."""


class Forked:
    """The command line in a process that is forked, which spares the imports."""

    def __init__(self, *arguments: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(HEAVY)
        self._process = context.Process(target=_command_line, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        self._process.join(seconds)
        return self._process.exitcode


class Spawned:
    """A command in a process of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


class Background:
    """The process with a study's job in the background, which a command starts or, after a kill, resumes."""

    def __init__(self, study: Path, home: Path) -> None:
        self._home, self._stored = home, StoredStudy(home)
        command = ["study", "run", str(study), "--log-samples", "--background"]
        if self._stored.rows("SELECT job_id, title FROM jobs"):
            command = ["jobs", "resume"]
        Forked(home, [*command, "--engines", "1"], None).wait(300.0)
        self._pid = next(iter(processes_of(home, BACKGROUND)), None)

    @property
    def pid(self) -> int | None:
        return self._pid

    def wait(self, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while processes_of(self._home, BACKGROUND):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        return 0 if self._stored.is_done() else 1


def in_process(study: Path, home: Path, moment: tuple[str, int] | None = None) -> Program:
    """Compute the study by `wina study run`, which kills itself at the moment."""
    return Forked(home, ["study", "run", str(study), "--log-samples", "--engines", "1"], moment)


def in_engines(study: Path, home: Path) -> Program:
    """Compute the study by `wina study run --engines 2`."""
    return Forked(home, ["study", "run", str(study), "--log-samples", "--engines", "2"], None)


def in_window(study: Path, home: Path) -> Program:
    """Compute the study in the window, which closes at its end."""
    code = "import sys; from tests.trust.killed_programs import show; sys.exit(show(*sys.argv[1:]))"
    return Spawned([sys.executable, "-c", code, str(study), str(home)], _environment(home), home / "output.txt")


def draw_moment(chance: random.Random) -> tuple[str, int]:
    """Draw a moment inside a program."""
    what, most = chance.choice(MOMENTS)
    return what, chance.randint(1, most)


def _environment(home: Path) -> dict[str, str]:
    return {"WINA_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", MARKER: home.name}


def _command_line(home: Path, command: list[str], moment: tuple[str, int] | None) -> None:
    os.environ.update(_environment(home))
    with (home / "output.txt").open("a") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    if moment is not None:
        _kill_at(*moment)
    from wina_core.cli import main

    sys.argv = ["wina", *command, "--database", str(home / "results.sqlite")]
    main()


def _kill_at(what: str, number: int) -> None:
    """Have this process kill itself when the number is reached."""
    from sqlalchemy import Engine, event

    from wina_core.api.progress import TerminalReporter
    from wina_core.store import Store

    def counted() -> None:
        if next(counter) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(method: Callable[..., Any]) -> Callable[..., Any]:
        def both(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            counted()
            return result

        return both

    counter = itertools.count(1)
    match what:
        case "checks":
            TerminalReporter.check = after(TerminalReporter.check)  # type: ignore[method-assign]
        case "stored":
            Store.record_unit = after(Store.record_unit)  # type: ignore[method-assign]
        case "commits":
            event.listen(Engine, "commit", lambda _: counted())


def show(study: str, home: str) -> int:
    """Open the window, compute the study's missing measurements, and close at their end."""
    from wina_app.__main__ import main
    from wina_app.application import Application
    from wina_app.services.settings import Settings

    from wina_core.jobs import EvaluateJob
    from wina_core.store import Store
    from wina_core.studies.expand import labelled, specs_of
    from wina_core.studies.gallery import find_study

    Settings().update(confirm_quit=False)
    start = Application.start

    def queue(store: Store) -> EvaluateJob:
        named = labelled(find_study(study))
        runs = specs_of(named)
        store.save_study(find_study(study), named)
        return EvaluateJob(runs=tuple(store.pending(runs, samples=True)), samples=True)

    def start_and_compute(self: Application, *arguments: Any) -> None:
        start(self, *arguments)
        self.workbench.jobs.ended.connect(lambda _: self.window.close())
        self.workbench.store.ask(queue, lambda job: self.workbench.submit(job, "killed"))

    Application.start = start_and_compute  # type: ignore[method-assign]
    return main(["--database", str(Path(home) / "results.sqlite"), "--engines", "1"])


# ---- processes -----------------------------------------------------------------------------------------------------


def processes_of(home: Path, part: str = "") -> dict[int, str]:
    """Return the running processes of this folder's programs, each with its command line, which has the `part`."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                marked = f"{MARKER}={home.name}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if marked and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it ended meanwhile, or is another user's
                continue
    return {pid: command for pid, command in found.items() if part in command}


def engines_of(home: Path) -> list[int]:
    """Return the process ids of the engines, in order."""
    return sorted(processes_of(home, ENGINE))


def wait_until_gone(home: Path, seconds: float) -> list[int]:
    """Wait until no process of the folder's programs is left; kill and return those that are after so long."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        send(pid, signal.SIGKILL)
    return sorted(left)


def send(pid: int | None, number: int) -> bool:
    """Send a signal; return whether the process was there."""
    try:
        os.kill(pid or 0, number) if pid else None
    except ProcessLookupError:
        return False
    return pid is not None
