"""The check of a machine's events against the job that it was given."""

from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from tests.wina_core.engine.engine_events import run
from wina_core.jobs import ExportGgufJob, ExportModelJob, Job, Result, ResultValue, RotateJob, Submit
from wina_core.records import ExportRecord, GgufRecord, RotationReport
from wina_core.remote.content import Breach
from wina_core.remote.remote_job import RemoteJob
from wina_core.specs import NO_ROTATION, ModelSource
from wina_core.specs.machine import Machine

MACHINE = Machine(host="away", folders={"/models": "/data/models"})
DEMO = ModelSource(location="demo")
REPORT = RotationReport(rotation="x", logits_deviation=0.0, residuals=(), shortcut_parameters=0, seconds=1.0)


def report(path: str) -> RotationReport:
    return REPORT.model_copy(update={"exported_to": path})


def written(job: Job, value: ResultValue, machine: Machine = MACHINE) -> str:
    """Return the path of a job's result as it arrives."""
    event = RemoteJob(Submit(job_id="1", job=job), machine).check(Result(job_id="1", value=value), 100)
    assert isinstance(event, Result)
    arrived = event.value.model_dump()
    return next(str(arrived[name]) for name in ("folder", "exported_to", "file") if name in arrived)


JOBS = [
    (ExportModelJob(spec=run(0.5), folder="/models/new"), lambda path: ExportRecord(folder=path, bytes=1)),
    (RotateJob(model=DEMO, rotation=NO_ROTATION, export_to="/models/new"), report),
    (
        ExportGgufJob(model=DEMO, file="/models/new", converter="/models/convert.py"),
        lambda path: GgufRecord(file=path, bytes=1, perplexity=None),
    ),
]


@pytest.mark.parametrize(("job", "record"), JOBS)
def test_a_result_names_the_requested_path_and_no_other(job: Job, record: Callable[[str], ResultValue]) -> None:
    assert PurePosixPath(written(job, record("/data/models/new"))) == PurePosixPath("/models/new")
    for path in ("/data/models/../../etc/x", "/data/models/other", "/data/models/new/../other", "/home/me/.ssh", ""):
        with pytest.raises(Breach, match="path of a file that was not requested"):
            written(job, record(path))


def test_a_result_in_folders_inside_each_other_has_the_path_of_the_job() -> None:
    nested = Machine(host="away", folders={"/models": "/data", "/big": "/data/big"})
    job = ExportModelJob(spec=run(0.5), folder="/models/big/new")
    assert written(job, ExportRecord(folder="/data/big/new", bytes=1), nested) == "/models/big/new"


def test_a_rotation_that_is_not_exported_names_no_path() -> None:
    job = RotateJob(model=DEMO, rotation=NO_ROTATION)
    assert written(job, REPORT) == "None"
    with pytest.raises(Breach):
        written(job, report("/data/models/new"))
