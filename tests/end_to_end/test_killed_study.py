"""A study that is killed at random moments and begun again each time ends as one that nothing disturbed."""

import itertools
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_text

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills itself by SIGKILL")

KILLS = 10 if "WINA_LONG_TESTS" in os.environ else 3
PATIENCE = 300.0
HEAVY = [
    "torch",
    "wina_core.cli",
    "wina_core.cli.running",
    "wina_core.engine.server.run_job",
    "wina_core.engine.server.evaluate",
    "transformers.models.llama.modeling_llama",  # by which the model's own import takes longest
]
"""Imported once by the server that each computing process is forked from."""
MOMENTS: tuple[tuple[str, int], ...] = (
    *itertools.repeat(("milliseconds", 150), 3),  # after the first run began
    *itertools.repeat(("checks", 150), 3),  # between two matrix products, mostly
    *itertools.repeat(("stored", 2), 2),  # right after a measurement was stored
    *itertools.repeat(("commits", 6), 2),  # with a transaction open
)
"""What is counted until the kill, and up to which number."""
STUDY = """\
name = "killed"
sparsities = [0.3, 0.5, 0.7]
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
_UNITS = "units JOIN runs ON runs.id = run_id"
TABLES = {
    "runs": "SELECT hash, status, unit_count, error FROM runs",
    "units": f"SELECT hash, unit, gated_sparsity, net_sparsity FROM {_UNITS}",
    "metrics": f"SELECT hash, unit, metrics.* FROM metrics JOIN {_UNITS} WHERE units.id = unit_id",
    "samples": f"SELECT hash, unit, samples.* FROM samples JOIN {_UNITS} WHERE units.id = unit_id",
    "layer_stats": f"SELECT hash, unit, layer_stats.* FROM layer_stats JOIN {_UNITS} WHERE units.id = unit_id",
}


def compute(study: Path, home: Path, moment: tuple[str, int] | None) -> None:
    """`wina study run`, in a process of its own that kills itself at a moment."""
    os.environ["WINA_HOME"] = str(home)
    with (home / "output.txt").open("a") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    if moment is not None:
        kill_at(*moment)
    from wina_core.cli import app

    app(
        ["study", "run", str(study), "--log-samples", "--database", str(home / "results.sqlite")], standalone_mode=False
    )


def kill_at(what: str, number: int) -> None:
    """Have this process killed when the number is reached."""
    from sqlalchemy import Engine, event

    from wina_core.cli.terminal import TerminalReporter
    from wina_core.store import Store

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def counted() -> None:
        if next(counter) == number:
            kill()

    def after(method: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
        def both(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            then()
            return result

        return both

    counter = itertools.count(1)
    match what:
        case "milliseconds":
            Store.begin_run = after(Store.begin_run, threading.Timer(number / 1000, kill).start)
        case "checks":
            TerminalReporter.check = after(TerminalReporter.check, counted)
        case "stored":
            Store.record_unit = after(Store.record_unit, counted)
        case "commits":
            event.listen(Engine, "commit", lambda _: counted())


class Study:
    """A study file, and a folder that it is computed in."""

    def __init__(self, file: Path, home: Path) -> None:
        self._file, self._home = file, home
        home.mkdir()

    def compute(self, moment: tuple[str, int] | None = None) -> int:
        """Exit code of the process; negative for a signal."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(HEAVY)
        process = context.Process(target=compute, args=(self._file, self._home, moment))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode is not None, "it hangs"
        return process.exitcode

    @property
    def output(self) -> str:
        return (self._home / "output.txt").read_text()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives, without the columns of numbers that only name rows."""
        with closing(sqlite3.connect(self._home / "results.sqlite")) as database:
            cursor = database.execute(query)
            kept = [not column[0].endswith("id") for column in cursor.description]
            return sorted((tuple(itertools.compress(row, kept)) for row in cursor), key=repr)

    def stored(self) -> dict[tuple[str, str], float]:
        """When each measurement was stored."""
        rows = self.rows(f"SELECT hash, unit, units.finished FROM {_UNITS}")
        assert len({row[:2] for row in rows}) == len(rows), "none twice"
        return {(run, unit): finished for run, unit, finished in rows}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "killed.toml"
    model, text = tiny_folder(tmp_path / "model"), tiny_text(tmp_path)
    path.write_text(STUDY.format(model=model.as_posix(), text=Path(text).as_posix()))
    return path


def test_a_study_killed_at_random_moments_ends_with_exactly_the_rows_of_an_undisturbed_run(
    file: Path, tmp_path: Path
) -> None:
    killed = Study(file, tmp_path / "killed")
    chance = random.Random(5)
    moments = [(what, chance.randint(1, most)) for what, most in chance.sample(MOMENTS, KILLS)]
    before: dict[tuple[str, str], float] = {}
    for moment in moments:
        assert killed.compute(moment) == -signal.SIGKILL, (moment, killed.output)
        after = killed.stored() if (tmp_path / "killed" / "results.sqlite").exists() else {}
        assert before.items() <= after.items(), "what was stored stays as it was"
        before = after
    assert before, "some of the work was done by then"
    assert killed.compute() == 0, killed.output
    assert before.items() <= killed.stored().items()

    undisturbed = Study(file, tmp_path / "undisturbed")
    assert undisturbed.compute() == 0, undisturbed.output
    for table, query in TABLES.items():
        expected = undisturbed.rows(query)
        assert expected, table
        assert killed.rows(query) == expected, table
    assert {row[1] for row in killed.rows(TABLES["runs"])} == {"done"}
