"""Hostile files, one command for each: `python -m tests.trust.hostile [words of a case]`.

Every case writes files that try to create a canary or to write outside of the folders of a run, and calls the command
line on them, in this process, which watches itself (PEP 578), or in one of its own.
"""

import faulthandler
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.trust import PATHS, hostile_files, hostile_tasks
from tests.trust.attack import called, counted, verdict

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {
    "os.rename": (0, 1),
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir"), (0,)),
    **dict.fromkeys(("os.symlink", "os.link"), (1,)),
}
_PROGRAMS = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
_MOST_SECONDS = 60


class Watch:
    """Audit hook that notes what a case executes and where it writes."""

    def __init__(self) -> None:
        self.hostile = self.allowed = ""
        """Folder of the case's files, and the one that may be written."""
        self.executed: list[str] = []
        self.written: list[str] = []
        sys.addaudithook(self._hook)

    def begin(self, hostile: Path, allowed: Path) -> None:
        """Watch from now on."""
        self.executed, self.written = [], []
        self.hostile, self.allowed = str(hostile), str(allowed)

    def end(self) -> None:
        """Watch no more."""
        self.hostile = ""

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.hostile:
            return
        if event == "exec" and str(getattr(arguments[0], "co_filename", "")).startswith(self.hostile):
            self.executed.append(arguments[0].co_filename)
        elif event in _PROGRAMS:
            self.executed.append(f"{event} {arguments[0]!r}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            self._wrote(arguments[0])
        elif event in _CHANGES:
            for place in _CHANGES[event]:
                self._wrote(arguments[place])

    def _wrote(self, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            full = os.path.abspath(os.fsdecode(path))
            if not full.startswith((self.allowed, "/dev/", "/proc/")) and "__pycache__" not in full:
                self.written.append(full)


def main(words: list[str]) -> int:
    """Run the cases; return the exit status."""
    faulthandler.enable()
    with tempfile.TemporaryDirectory(prefix="wina-hostile-") as folder:
        root = Path(folder).resolve()
        allowed = root / "home"
        for name, place in {
            "WINA_HOME": "wina",
            "HF_HOME": "hub",
            "TMPDIR": "tmp",
            "XDG_CACHE_HOME": "cache",
            "HOME": "user",
        }.items():
            (allowed / place).mkdir(parents=True)
            os.environ[name] = str(allowed / place)
        tempfile.tempdir = None
        os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        os.environ.pop("WINA_DATABASE", None)
        os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
        sys.dont_write_bytecode = True
        counts = _run(root, allowed, words)
    return verdict("hostile", counts, counted({harm: counts[harm] for harm in ("executed", "written_outside")}))


def _run(root: Path, allowed: Path, words: list[str]) -> dict[str, Any]:
    counts = dict.fromkeys(("cases", "refused", "accepted", "executed", "written_outside", "tracebacks"), 0)
    _index_few_tasks()
    watch, slowest = Watch(), 0.0
    for number, (name, (write, commands, own_process)) in enumerate(_cases().items()):
        if words and not all(word in name for word in words):
            continue
        folder, canary = root / f"case{number}" / "files", root / f"case{number}" / "canary"
        folder.mkdir(parents=True)
        write(folder, canary)
        before = _tree(root, allowed)
        os.chdir(folder)
        statuses, told, started = [], "", time.monotonic()
        for command in commands(folder):
            watch.begin(folder, allowed)
            status, said = _apart(command) if own_process else _within(command)
            watch.end()
            statuses.append(status)
            told += said
        os.chdir(root)
        slowest = max(slowest, time.monotonic() - started)
        executed = canary.exists() or bool(watch.executed)
        outside = _tree(root, allowed) != before or bool(watch.written)
        counts["cases"] += 1
        counts["refused" if any(statuses) else "accepted"] += 1
        counts["executed"] += executed
        counts["written_outside"] += outside
        broken = "Traceback" in told or any(status < 0 for status in statuses)
        counts["tracebacks"] += broken
        harms = {"EXECUTED": executed, "WROTE": outside, "TRACEBACK": broken}
        marks = [word for word, is_so in harms.items() if is_so]
        last = (told.strip().splitlines() or [""])[-1][:150]
        print(f"{name}: {statuses} {' '.join(marks)} {last}", file=sys.stderr)
        if marks:
            print(watch.executed[:3], watch.written[:3], told[-1500:], file=sys.stderr)
    return {**counts, "slowest_seconds": round(slowest, 1)}


Case = tuple[Callable[[Path, Path], object], Callable[[Path], list[list[object]]], bool]


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {
        name: (lambda folder, canary, files=files: hostile_tasks.write(files, folder, canary), _evaluate, False)
        for name, files in hostile_tasks.CASES.items()
    }
    return cases | hostile_files.CASES


def _evaluate(folder: Path) -> list[list[object]]:
    words = ["--model", "demo", "--method", "dense", "--no-fidelity", "--limit", 2, "--tasks", "evil"]
    return [["eval", *words, "--include-path", folder]]


def _within(command: list[object]) -> tuple[int, str]:
    """Call the command line in this process; return its status and its messages."""
    try:
        status, out, err = called(list(map(str, command)))
    except BaseException:
        return 1, traceback.format_exc()
    return status, out + err


def _apart(command: list[object]) -> tuple[int, str]:
    """Call the command line in a process of its own, in the current folder."""
    words = [sys.executable, "-P", "-m", "wina_core.cli", *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_MOST_SECONDS * 2, check=False)
    return done.returncode, done.stdout + done.stderr


def _tree(root: Path, allowed: Path) -> list[tuple[str, int, int]]:
    """Return all files that no case may change, with size and time."""
    files = (Path(parent, name) for parent, _, names in os.walk(root) for name in names)
    kept = [path for path in files if not path.is_relative_to(allowed) and "__pycache__" not in path.parts]
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in kept)


def _index_few_tasks() -> None:
    """Save an index of no stock task, since reading all takes long."""
    from wina_core.studies.tasks.index import TaskIndex, save_index

    save_index(TaskIndex([]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
