"""Submission of studies to a queue: the window shows what `wina` says about it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wina_app.services.hosted_jobs import ArraySubmission

from tests.wina_app.fakes import make_workbench


@pytest.fixture
def submission(qapp: Any, tmp_path: Path) -> Iterator[ArraySubmission]:  # noqa: ARG001 - signals need an application
    workbench, _, store = make_workbench(tmp_path)
    program = "import sys; 'refused' in sys.argv and sys.exit('wina: There is no Slurm here.'); print('Submitted')"
    made = ArraySubmission(workbench, (sys.executable, "-c", program))
    store.opened.emit(store.store)
    yield made
    workbench.stopped.emit()
    store.store.close()


def test_what_wina_says_about_a_submission_is_shown(qtbot: Any, submission: ArraySubmission) -> None:
    with qtbot.waitSignal(submission.submitted) as submitted:
        submission.submit(["demo.toml"])
    assert submitted.args == ["Submitted."]
    with qtbot.waitSignal(submission.failed) as failed:
        submission.submit(["refused"])
    assert failed.args == ["There is no Slurm here."]
