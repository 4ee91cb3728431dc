"""A disk that fills while a study is computed: `python -m tests.trust.full_disk`, on Linux as root, some two minutes.

The database lies on a file system of 16 MiB that is mounted for the purpose. It is filled once two measurements are
stored. The study must stop with a sentence then, and all commands that read must work. Once there is space, the same
command must compute what is missing, and nothing else.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.trust.attack import verdict

SPARSITIES = tuple(f"0.{step:02}" for step in range(10, 70, 5))
READING = (
    ["results", "--json"],
    ["export", "{home}/out.csv"],
    ["plan", "list"],
    ["report", "wina on demo", "--output-path", "{home}/report"],
)
WAIT_SECONDS = 300


def main() -> int:
    """Run the check, print its report and verdict, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder, "disk")) as disk:
        report = run(disk, Path(folder, "home"))
    return verdict("full disk", report, [name for name, holds in report.items() if holds is False])


def run(disk: Path, home: Path) -> dict[str, object]:
    """Fill the disk during a study; return what was seen, by name."""
    file = disk / "results.sqlite"
    settings = os.environ | {"WINA_HOME": str(home), "WINA_DATABASE": str(file), "TMPDIR": str(home.parent)}
    sweep = ["eval", "--fidelity", "--tokens", "512", *(word for each in SPARSITIES for word in ("--sparsity", each))]
    study = subprocess.Popen(command(sweep), env=settings, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    end = time.monotonic() + WAIT_SECONDS
    while stored(file) < 2 and study.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    fill(disk / "filler")
    _, said = study.communicate(timeout=WAIT_SECONDS)
    before = stored(file)
    report: dict[str, object] = {
        "sparsities": len(SPARSITIES),
        "stored when the disk was full": before,
        "the study stopped": study.returncode == 1 and "Traceback" not in said,
        "the last sentence says why": "is full or failing" in said.splitlines()[-1],
    }
    for words in READING:
        done = call([word.format(home=home.parent) for word in words], settings)
        report[f"wina {words[0]} on the full disk"] = done.returncode == 0
        if done.returncode:
            report[f"stderr of wina {words[0]}"] = done.stderr.splitlines()[-1:]
    (disk / "filler").unlink()
    again = call(sweep, settings)
    report["the same command continues"] = again.returncode == 0 and stored(file) > before
    report["nothing is computed again"] = "to compute" not in call(sweep, settings).stderr
    return report


def command(words: list[str]) -> list[str]:
    """Return the command line of `wina` with these words."""
    return [sys.executable, "-m", "wina_core.cli", *words]


def call(words: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `wina` to its end."""
    return subprocess.run(
        command(words), env=settings, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


def stored(file: Path) -> int:
    """Return the number of stored measurements, none before there is a database."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM units").fetchone()[0])
        except sqlite3.OperationalError:  # its tables are being made
            return 0


def fill(file: Path) -> None:
    """Write to a file until its disk is full."""
    with file.open("wb", buffering=0) as filler:
        for size in (4096, 1):
            try:
                while filler.write(b"x" * size):
                    pass
            except OSError:
                continue


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 16 MiB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


if __name__ == "__main__":
    sys.exit(main())
