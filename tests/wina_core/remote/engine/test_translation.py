"""A job's paths and runs are replaced on the way to a machine, and come back as they were."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.engine.engine_events import evaluate, run
from wina_core.errors import WinaError
from wina_core.jobs import InspectJob, RotateJob
from wina_core.remote.engine.translation import Translation
from wina_core.specs import NO_ROTATION, ModelSource
from wina_core.specs.machine import FolderPair, Machine, join_location

MACHINE = Machine(
    name="away",
    destination="away",
    folders=(FolderPair(here="/models", there="/m"), FolderPair(here="/models/big", there="/big files")),
)
PARTS = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..")
)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
HERE = st.tuples(st.sampled_from(["/models/", "/models/big/", "away:/", "/elsewhere/", ""]), PATHS).map("".join)


@settings(max_examples=40)
@given(st.lists(HERE, min_size=1, max_size=4, unique=True))
def test_runs_come_back_under_their_own_hashes(locations: list[str]) -> None:
    runs = [run(0.5).model_copy(update={"model": ModelSource(location=location)}) for location in locations]
    job = evaluate(*runs)
    if len({MACHINE.there(location.removeprefix("away:")) for location in locations}) < len(locations):
        with pytest.raises(WinaError, match="leave one of them out"):
            Translation(job, MACHINE)
        return
    translation = Translation(job, MACHINE)
    for there, here in zip(translation.job.runs, runs, strict=True):  # type: ignore[union-attr]
        assert "away:" not in there.spec.model.location
        assert translation.runs[there.spec.content_hash()] == here.content_hash()
    assert translation.back(translation.job) == job


def test_a_folder_that_the_machine_names_belongs_to_it_or_is_the_pair_s() -> None:
    translation = Translation(InspectJob(model=ModelSource(location="demo")), MACHINE)
    named = RotateJob(model=ModelSource(location="/x/y"), rotation=NO_ROTATION, export_to="/m/rotated")
    back = translation.back(named)
    assert (back.model.location, back.export_to) == (join_location("away", "/x/y"), "/models/rotated")


def test_a_model_on_a_third_machine_is_refused() -> None:
    with pytest.raises(WinaError, match="another machine than away"):
        Translation(InspectJob(model=ModelSource(location="third:/model")), MACHINE)
