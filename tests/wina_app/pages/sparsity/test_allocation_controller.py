"""From a budget and an allocator to a job, and from its result to one step of undo."""

import pytest
from wina_app.pages.sparsity.allocation_controller import (
    OTHER_CONFIGURATION,
    AllocationController,
    CalibrationController,
    outcome,
)
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.stored_runs import SOURCE, layout, summary
from wina_core.jobs import AllocateJob, CalibrateJob, InspectJob
from wina_core.records import AllocationRecord
from wina_core.specs import AllocatedSparsity, AllocatorSpec, CalibrationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import SparsityPlan

CURVES = AllocatorSpec(name="curves")
PLAN = SparsityPlan.uniform(layout(), 0.5).with_cells({(0, 0): 0.3, (7, 6): 0.6}, provenance="curves")


def found(value: float = 0.0123, bound: float | None = 0.0121, plan: SparsityPlan = PLAN) -> AllocationRecord:
    """Return a record as the engine does."""
    return AllocationRecord(
        key="k", plan=plan, objective="KL", value=value, bound=bound, evaluations=1200, seconds=34.2
    )


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(SparsityPage)
    plans = PlanEditor(workbench.workspace, Recorded(SparsityPage))
    load(workbench)
    yield AllocationController(workbench, view, plans), view, workbench, engine, plans
    store.store.close()


def test_the_job_names_all_that_the_budget_is_spread_for(bench):
    controller, view, workbench, engine, _ = bench
    method, rotation = MethodSpec(name="wina", masks="shared"), RotationSpec(mode="per_layer")
    workbench.workspace.set_method(method)
    workbench.workspace.set_rotation(rotation)
    controller.allocate(CURVES, 0.65)
    assert engine.last.job == AllocateJob(
        model=SOURCE, rotation=rotation, method=method, plan=AllocatedSparsity(sparsity=0.65, allocator=CURVES)
    )
    assert view.last("show_allocating").active
    controller.allocate(CURVES, 0.5)
    assert len(engine.submitted) == 1, "one at a time"


def test_the_result_is_the_plan_in_one_step_of_undo_with_its_objective_and_bound(bench):
    controller, view, workbench, engine, plans = bench
    before, allocated = workbench.workspace.plan, []
    controller.allocated.connect(allocated.append)
    controller.allocate(CURVES, 0.5)
    engine.answer(result(found()), done())
    assert workbench.workspace.plan == PLAN
    assert allocated == [PLAN]
    assert view.last("show_allocating") is None
    text = "curves: KL 0.0123 nats per token, at most 1.7 % above the optimum on the curves"
    assert view.last("show_outcome") == text
    plans.undo_stack.undo()
    assert workbench.workspace.plan == before
    assert view.last("show_outcome") == ""
    plans.undo_stack.redo()
    assert view.last("show_outcome") == text
    plans.paint(frozenset({(1, 1)}), 0.9)
    assert view.last("show_outcome") == "", "an edited plan is not the allocated one any more"


def test_a_result_is_taken_over_and_said_only_for_the_configuration_it_was_found_for(bench):
    controller, view, workbench, engine, _ = bench
    work = workbench.workspace
    before = work.source, work.rotation, work.method

    def restore() -> None:
        load(workbench, before[0])
        work.set_rotation(before[1])
        work.set_method(before[2])

    others = {
        "model of another layout": lambda: load(workbench, ModelSource(location="/models/other"), summary(4)),
        "model": lambda: load(workbench, ModelSource(location="/models/other")),
        "rotation": lambda: work.set_rotation(RotationSpec(mode="per_layer")),
        "method": lambda: work.set_method(MethodSpec(name="teal")),
    }
    for name, choose in others.items():
        controller.allocate(CURVES, 0.5)
        choose()
        plan = work.plan
        engine.answer(result(found()), done())
        assert work.plan == plan, name
        assert view.last("show_notice") == OTHER_CONFIGURATION
        restore()
    assert len(view.calls("show_notice")) == len(others)
    assert not any(view.calls("show_outcome"))
    controller.allocate(CURVES, 0.5)
    engine.answer(result(found()), done())
    text = view.last("show_outcome")
    assert text.startswith("curves: KL 0.0123")
    for name, choose in others.items():
        choose()
        assert view.last("show_outcome") == "", name
        restore()
        work.set_plan(PLAN)
        assert view.last("show_outcome") == text, name


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (found(0.5, None), "curves: KL 0.5 nats per token"),
        (found(0.5, 0.5), "curves: KL 0.5 nats per token, the optimum on the curves"),
        (found(0.5, 0.4), "curves: KL 0.5 nats per token, at most 25 % above the optimum on the curves"),
        (found(0.5, 0.0), "curves: KL 0.5 nats per token"),
    ],
)
def test_the_outcome_claims_no_more_than_is_proven(record, text):
    assert outcome(CURVES, record) == text


def test_curves_are_measured_for_their_own_sake_and_the_plan_stays(bench):
    controller, view, workbench, engine, _ = bench
    plan = workbench.workspace.plan
    controller.measure_divergences()
    assert engine.last.job.plan.allocator == CURVES
    assert view.last("show_allocating").active
    engine.answer(result(found()), done())
    assert workbench.workspace.plan == plan
    assert not any(view.calls("show_outcome"))
    assert view.last("show_allocating") is None


def test_a_calibration_of_the_current_configuration_is_shown_until_it_ends(tmp_path, qapp):  # noqa: ARG001
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(SparsityPage)
    controller = CalibrationController(workbench, view)
    controller.calibrate()
    assert not engine.submitted, "no model is open"
    load(workbench)
    workbench.submit(InspectJob(model=SOURCE), "Load")
    assert view.last("show_calibrating") is False
    engine.answer(done())
    controller.calibrate()
    work = workbench.workspace
    assert engine.last.job == CalibrateJob(
        model=SOURCE, rotation=work.rotation, method=work.method, calibration=CalibrationSpec()
    )
    assert [entry.title for entry in workbench.jobs][-1] == "Calibrate wina, auto"
    assert view.last("show_calibrating") is True
    engine.answer(done())
    assert view.last("show_calibrating") is False
    store.store.close()
