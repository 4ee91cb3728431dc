"""Array jobs in the window: what `wina` prints about them becomes jobs of the dock."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wina_app.services.hosted_jobs import SubmittedArrays

from tests.wina_app.fakes import make_workbench
from wina_core.jobs import encode
from wina_core.jobs.hosted import ArrayJob, ArrayReport

NAME = "0" * 12
JOB = ArrayJob(array=NAME, job="7")


def report(**changes: Any) -> str:
    given = {"job": JOB, "title": "demo", "states": "2 running", "done": 1, "total": 4}
    return encode(ArrayReport.model_validate(given | changes))


class Bench:
    """A workbench whose `wina` is a program of the test."""

    def __init__(self, folder: Path, program: str) -> None:
        self.workbench, self.engine, self.store = make_workbench(folder)
        self.arrays = SubmittedArrays(self.workbench, (sys.executable, "-c", f"import sys, time; {program}"))
        self.store.opened.emit(self.store.store)

    @property
    def entry(self) -> Any:
        return self.workbench.jobs[NAME]


Make = Callable[[str], Bench]


@pytest.fixture
def bench(qapp: Any, tmp_path: Path) -> Iterator[Callable[[str], Bench]]:  # noqa: ARG001 - signals need an application
    made: list[Bench] = []

    def make(program: str) -> Bench:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Bench(folder, program))
        return made[-1]

    yield make
    for each in made:
        each.arrays.leave()
        each.store.store.close()


def printing(*reports: str) -> str:
    return f"print({''.join(reports)!r}, end='', flush=True)"


def test_an_array_is_a_job_that_shows_its_states_until_its_end(qtbot: Any, bench: Make) -> None:
    made = bench(printing(report(), report(states="2 done", done=4, ended=True)))
    stored: list[bool] = []
    made.workbench.results_changed.connect(lambda: stored.append(True))
    made.arrays.watch()
    qtbot.waitUntil(lambda: NAME in made.workbench.jobs and not made.entry.active)
    assert (made.entry.phase, made.entry.done, made.entry.total) == ("done", 4, 4)
    assert "Slurm job 7" in made.entry.title
    assert not made.entry.can_retry
    assert stored


def test_errors_and_the_log_of_a_dead_element_are_in_the_log_of_the_job(
    qtbot: Any, bench: Make, caplog: pytest.LogCaptureFixture
) -> None:
    made = bench(printing(report(failures=["no memory"], log="Killed"), report(ended=True)))
    caplog.set_level(logging.INFO)
    made.arrays.watch()
    qtbot.waitUntil(lambda: NAME in made.workbench.jobs and not made.entry.active)
    assert (made.entry.phase, made.entry.error) == ("failed", "no memory")
    lines = [record.getMessage() for record in caplog.records if getattr(record, "job", "") == NAME]
    assert {"no memory", "Killed", "2 running"} <= set(lines)


def test_cancelling_asks_wina_and_no_engine(qtbot: Any, bench: Make) -> None:
    watching = "'watch' in sys.argv"
    program = f"{printing(report())} if {watching} else print(sys.argv[1:]); time.sleep(600 * ({watching}))"
    made = bench(program)
    made.arrays.watch()
    qtbot.waitUntil(lambda: NAME in made.workbench.jobs)
    assert made.entry.is_elsewhere
    assert made.workbench.jobs.active == [], "the window can be closed without a question"
    made.workbench.cancel(NAME)
    qtbot.waitUntil(lambda: made.entry.phase == "cancelled")


def test_what_wina_says_about_a_submission_is_shown(qtbot: Any, bench: Make) -> None:
    made = bench("print('Submitted as array job 7; follow it')")
    with qtbot.waitSignal(made.arrays.submitted) as submitted:
        made.arrays.submit(["demo.toml"])
    assert submitted.args == ["Submitted as array job 7."]
    refusing = bench("sys.exit('wina: There is no Slurm here.')")
    with qtbot.waitSignal(refusing.arrays.failed) as failed:
        refusing.arrays.submit(["demo.toml"])
    assert failed.args == ["There is no Slurm here."]
