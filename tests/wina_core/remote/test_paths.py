"""A job's paths are those of the machine on the way there, and come back as they were."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.engine.engine_events import evaluate, run
from wina_core.errors import WinaError
from wina_core.jobs import InspectJob, RotateJob, Submit
from wina_core.records import ExportRecord
from wina_core.remote.remote_job import RemoteJob, copy_command, to_local, to_remote
from wina_core.specs import NO_ROTATION, ModelSource
from wina_core.specs.machine import Machine

MACHINE = Machine(
    host="away",
    folders={"/models": "/m", "/models/big": "/big files"},
)
PARTS = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
LOCATIONS = st.tuples(st.sampled_from(["/models/", "/models/big/", ""]), PATHS).map("".join)


@settings(max_examples=40)
@given(st.lists(LOCATIONS, min_size=1, max_size=4, unique=True))
def test_runs_come_back_under_their_own_hashes(locations: list[str]) -> None:
    job = evaluate(*(run(0.5).model_copy(update={"model": ModelSource(location=name)}) for name in locations))
    remote, local = to_remote(job, MACHINE)
    submit = Submit(job_id="1", job=job)
    if len({pending.spec.content_hash() for pending in remote.runs}) < len(locations):  # type: ignore[union-attr]
        with pytest.raises(WinaError, match="leave one of them out"):
            RemoteJob(submit, MACHINE)
        return
    runs = RemoteJob(submit, MACHINE)._runs
    for there, here in zip(remote.runs, job.runs, strict=True):  # type: ignore[union-attr]
        assert runs[there.spec.content_hash()] == here.spec.content_hash()
    assert to_local(remote, MACHINE, local) == job


def test_names_that_are_no_paths_stay_and_the_longest_folder_counts() -> None:
    for location, expected in (("demo", "demo"), ("org/model", "org/model"), ("/models/big/x", "/big files/x")):
        job, _ = to_remote(InspectJob(model=ModelSource(location=location)), MACHINE)
        assert isinstance(job, InspectJob)
        assert job.model.location == expected


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
        to_remote(job, MACHINE)


def test_a_folder_that_was_written_there_is_copied_by_one_command() -> None:
    record = ExportRecord(folder="/models/big/sparse", bytes=1)
    assert copy_command(record, MACHINE) == "rsync -a 'away:/big files/sparse' /models/big/"
    assert copy_command(ExportRecord(folder="/elsewhere", bytes=1), MACHINE) == ""
