"""Pictures of every page, to be looked at one by one: `python -m tests.benchmarks.pictures FOLDER`.

Takes every scene of `wina_app.tools.screenshots` empty, on the demo, and with 10,000 stored runs, at 1280 x 720 and
1920 x 1080, light and dark, with a text of 100 and 150 %. `--work` keeps the computed results for the next time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.large_store import fill, various_runs
from wina_core.store import Store

RUNS = 10_000
APPEARANCES = (
    "--size", "1280x720", "--size", "1920x1080", "--theme", "light", "--theme", "dark", "--text", "100", "--text", "150"
)  # fmt: skip


def main() -> int:
    """Take all pictures; return the number of states that failed."""
    options = argparse.ArgumentParser(prog="python -m tests.benchmarks.pictures")
    options.add_argument("folder", type=Path, help="where the PNG files go, in a folder for each state")
    options.add_argument("--work", type=Path, help="where results are computed, or were; a temporary folder")
    options.add_argument("--state", choices=("empty", "demo", "large"), action="append", help="again for more; all")
    options.add_argument("--only", metavar="SCENE", action="append", default=[], help="such as results; all")
    chosen = options.parse_args()
    with ExitStack() as stack:
        work = chosen.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        scenes = [word for scene in chosen.only for word in ("--only", scene)]
        return sum(_take(state, chosen.folder, work, scenes) for state in chosen.state or ("empty", "demo", "large"))


def _take(state: str, folder: Path, work: Path, scenes: list[str]) -> bool:
    """Take the pictures of one state, computing what is not stored; return whether that failed."""
    database = work.resolve() / f"{state}.sqlite"
    if state == "large" and not database.exists():
        with Store(database) as store:
            fill(store, various_runs(RUNS))
    arguments = [folder / state, "--database", f"sqlite:///{database}", *APPEARANCES, *scenes]
    arguments += ["--empty"] * (state == "empty") + ["--compute"] * (state == "demo")
    environment = os.environ | {"WINA_HOME": str(work.resolve() / "home")}
    command = [sys.executable, "-m", "wina_app.tools.screenshots", *map(str, arguments)]
    return subprocess.run(command, env=environment).returncode != 0


if __name__ == "__main__":
    sys.exit(main())
