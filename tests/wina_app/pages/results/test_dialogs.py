"""A stored run as the study that computes it again."""

import pytest
from wina_app.pages.results.dialogs import study_of

from tests.wina_app.stored_runs import GLOBAL, layout, run_spec
from wina_core.specs import NO_ROTATION, AllocatedSparsity, AllocatorSpec, CalibrationSpec, MethodSpec, ModelSource
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.expand import expand

ALLOCATED = AllocatedSparsity(sparsity=0.65, allocator=AllocatorSpec(name="greedy", variant="wina_released"))


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (run_spec("wina", GLOBAL, 0.5), {}),
        (run_spec("wina", GLOBAL, SparsityPlan.uniform(layout(), 0.5)), {}),
        (
            run_spec("wina", GLOBAL, 0.5),
            {"method": MethodSpec(name="wina", selection="threshold"), "calibration": CalibrationSpec()},
        ),
        (run_spec("dense", NO_ROTATION, 0.0), {}),
    ],
    ids=["uniform", "table", "calibrated", "dense"],
)
def test_a_run_as_a_study_expands_to_exactly_that_run(spec, changes):
    spec = spec.model_copy(update={"model": ModelSource(location="someone/model"), **changes})
    (run,) = expand(study_of(spec))
    assert run.content_hash() == spec.content_hash()


def test_an_allocated_run_is_a_study_that_allocates_again():
    changes = {"plan": ALLOCATED, "model": ModelSource(location="someone/model")}
    spec = run_spec("wina", NO_ROTATION, 0.5).model_copy(update=changes)
    assert [run.plan for run in expand(study_of(spec))] == [ALLOCATED]
