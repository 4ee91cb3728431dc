"""A job as another machine computes it: its paths there and back, and the check of the events."""

from collections.abc import Callable
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.engine.engine_events import evaluate, run
from wina_core.errors import WinaError
from wina_core.jobs import (
    EvaluateJob,
    ExportGgufJob,
    ExportModelJob,
    InspectJob,
    Job,
    Partial,
    Result,
    ResultValue,
    RotateJob,
    RunStarted,
    Submit,
)
from wina_core.records import ExportRecord, GgufRecord, RotationCandidate, RotationChoice, RotationReport, UnitRecord
from wina_core.remote.remote_job import Breach, RemoteJob, copy_command, to_local, to_remote
from wina_core.specs import NO_ROTATION, ModelSource, RotationSpec, TextSpec
from wina_core.specs.machine import Machine

MACHINE = Machine(host="away", folders={"/models": "/data/models"})
DEMO = ModelSource(location="demo")
REPORT = RotationReport(rotation="x", logits_deviation=0.0, residuals=(), shortcut_parameters=0, seconds=1.0)


def report(path: str) -> RotationReport:
    return REPORT.model_copy(update={"exported_to": path})


def written(job: Job, value: ResultValue, machine: Machine = MACHINE) -> str:
    """Return the path of a job's result as it arrives."""
    event = RemoteJob(Submit(job_id="1", job=job), machine).check(Result(job_id="1", value=value))
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


def measured(job: EvaluateJob, chosen: RotationReport) -> Partial:
    """Return the first measurement as it arrives, with the rotation that was chosen."""
    remote = RemoteJob(Submit(job_id="1", job=job), MACHINE)
    assert isinstance(remote.submit.job, EvaluateJob)
    sent = remote.submit.job.runs[0]
    name = sent.spec.content_hash()
    remote.check(RunStarted(job_id="1", run=name))
    unit = UnitRecord(run=name, unit=sent.units[0], metrics=(), seconds=1.0)
    event = remote.check(Partial(job_id="1", unit=unit, rotation=chosen))
    assert isinstance(event, Partial)
    return event


def test_the_rotation_that_was_chosen_for_a_run_has_the_paths_of_this_computer() -> None:
    there = RotationSpec(text=TextSpec(source="/data/models/text.txt"))
    candidate = RotationCandidate(
        rotation=there, kl=0.0, stderr=0.0, change=0.0, change_stderr=0.0, seconds=1.0, rows=()
    )
    choice = RotationChoice(sparsity=0.5, text="a text", candidates=(candidate,), chosen=0, seconds=1.0)
    event = measured(evaluate(run(0.5)), REPORT.model_copy(update={"choice": choice}))
    assert event.rotation is not None
    assert event.rotation.choice is not None
    assert event.rotation.choice.candidates[0].rotation.text.source == "/models/text.txt"
    with pytest.raises(Breach, match="path of a file that was not requested"):
        measured(evaluate(run(0.5)), report("/data/models/new"))


# ---- paths -----------------------------------------------------------------------------------------------------------

NESTED = Machine(host="away", folders={"/models": "/m", "/models/big": "/big files"})
PARTS = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
LOCATIONS = st.tuples(st.sampled_from(["/models/", "/models/big/", ""]), PATHS).map("".join)


@settings(max_examples=40)
@given(st.lists(LOCATIONS, min_size=1, max_size=4, unique=True))
def test_runs_come_back_under_their_own_hashes(locations: list[str]) -> None:
    job = evaluate(*(run(0.5).model_copy(update={"model": ModelSource(location=name)}) for name in locations))
    remote, local = to_remote(job, NESTED)
    submit = Submit(job_id="1", job=job)
    if len({pending.spec.content_hash() for pending in remote.runs}) < len(locations):  # type: ignore[union-attr]
        with pytest.raises(WinaError, match="leave one of them out"):
            RemoteJob(submit, NESTED)
        return
    runs = RemoteJob(submit, NESTED)._runs
    for there, here in zip(remote.runs, job.runs, strict=True):  # type: ignore[union-attr]
        assert runs[there.spec.content_hash()] == here.spec.content_hash()
    assert to_local(remote, NESTED, local) == job


def test_paths_of_a_job_come_back_as_they_were_from_folders_inside_each_other() -> None:
    nested = Machine(host="away", folders={"/a": "/data", "/b": "/data/models"})
    for path in ("/a/models/x", "/b/x", "/a/models//x/"):
        remote, local = to_remote(job := InspectJob(model=ModelSource(location=path)), nested)
        assert isinstance(remote, InspectJob)
        assert remote.model.location == "/data/models/x"
        assert to_local(remote, nested, local) == job


def test_a_path_in_no_mapped_folder_is_refused_with_the_commands_that_help() -> None:
    job = RotateJob(model=ModelSource(location="demo"), rotation=NO_ROTATION, export_to="/home/me/rotated")
    with pytest.raises(WinaError, match=r"rsync -a /home/me/rotated away:FOLDER/.* --folder /home/me=FOLDER"):
        to_remote(job, NESTED)


def test_a_folder_that_was_written_there_is_copied_by_one_command() -> None:
    record = ExportRecord(folder="/models/big/sparse", bytes=1)
    assert copy_command(record, NESTED) == "rsync -a 'away:/big files/sparse' /models/big/"
    assert copy_command(ExportRecord(folder="/elsewhere", bytes=1), NESTED) == ""
