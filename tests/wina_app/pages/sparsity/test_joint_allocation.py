"""Allocating bits and sparsity together: budgets, the job, and its pair as one step of undo."""

import pytest
from wina_app.pages.sparsity.allocation_controller import AllocationController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.pages.sparsity.toolbar import JointBudget

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.pages.sparsity.sparsity_pages import open_page
from tests.wina_app.stored_runs import SOURCE, layout, summary
from wina_core.errors import WinaError
from wina_core.records import JointRecord
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair

RTN = QuantizationSpec(quantizer="rtn", bits=4, group=32)
BITS = QuantizationSpec(quantizer="rtn", bits=BitsPlan.uniform(layout(), 4).with_cells({(0, 0): 8}), group=32)
PAIR = PlanPair(plan=SparsityPlan.uniform(layout(), 0.4).with_cells({(1, 1): 0.6}, "joint"), quantization=BITS)
PLANES = QuantizationSpec(quantizer="planes", bits=4, by_energy=True, group=32)
IN_PLANES = PAIR.model_copy(update={"quantization": QuantizationSpec(quantizer="planes", bits=8, by_energy=True)})
FOUND = JointRecord(
    key="k", pair=PAIR, value=0.02, bound=0.02, kl=0.0123, bits_read=2.95, bits_held=4.51, evaluations=900, seconds=30.0
)


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(SparsityPage)
    plans = PlanEditor(workbench.workspace, Recorded(SparsityPage))
    load(workbench)
    workbench.workspace.set_quantization(RTN)
    yield AllocationController(workbench, view, plans), view, workbench.workspace, engine, plans
    store.store.close()


def test_the_pair_is_one_step_of_undo_with_what_it_takes(bench):
    controller, view, workspace, engine, plans = bench
    before = workspace.plan
    controller.allocate_jointly(JointBudget(read=3.0, held=5.0))
    engine.answer(result(FOUND), done())
    assert (workspace.plan, workspace.quantization) == (PAIR.plan, BITS)
    text = (
        "joint, 3 bits read, 5 bits held: KL 0.0123 nats per token, 2.95 bits read and 4.51 held, "
        "the optimum on the curves"
    )
    assert view.last("show_outcome") == text
    plans.undo_stack.undo()
    assert (workspace.plan, workspace.quantization) == (before, RTN)
    assert view.last("show_outcome") == ""
    plans.undo_stack.redo()
    assert view.last("show_outcome") == text
    plans.edit("bits")
    plans.paint(frozenset({(3, 3)}), 2)
    assert view.last("show_outcome") == "", "edited bits are not the allocated ones any more"


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (JointBudget(None, None), "needs a budget"),
        (JointBudget(4.0, 2.9), "2.9 bits held per weight is below what the bits allow: 2 bits .* groups of 32 hold 3"),
    ],
)
def test_a_budget_that_no_bits_can_meet_is_refused_in_one_sentence(bench, budget, said):
    controller, view, _, engine, _ = bench
    controller.allocate_jointly(budget)
    text = view.last("show_error")
    with pytest.raises(WinaError, match=said):
        raise WinaError(text)
    assert text.count(". ") == 0
    assert not engine.submitted


def test_a_plan_in_planes_selects_by_threshold_in_the_same_step(bench):
    controller, view, workspace, engine, plans = bench
    workspace.set_quantization(PLANES)
    controller.allocate_jointly(JointBudget(3.0, None))
    record = FOUND.model_copy(update={"pair": IN_PLANES})
    engine.answer(result(record), done())
    text = "joint, 3 bits read: KL 0.0123 nats per token, 2.95 bits read and 4.51 held, by threshold selection"
    assert view.last("show_outcome") == text
    assert (workspace.method.selection, workspace.quantization) == ("threshold", IN_PLANES.quantization)
    assert plans.undo_stack.count() == 1
    plans.undo_stack.undo()
    assert (workspace.method.selection, workspace.quantization) == ("topk", PLANES)
    assert view.last("show_outcome") == ""
    plans.undo_stack.redo()
    assert view.last("show_outcome") == text


def test_the_budgets_of_bits_replace_that_of_sparsity_for_a_joint_allocation(qtbot, qapp, store):
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, summary())
    toolbar, asked = page.toolbar, []
    page.toolbar.joint_chosen.connect(asked.append)
    assert not toolbar.joint.isVisible()
    assert not page.quantization.isVisible()
    toolbar.allocator.setCurrentText("Joint")
    assert toolbar.joint.isVisible()
    assert page.quantization.isVisible(), "it chooses the quantizer"
    assert not toolbar.budget.isVisible()
    assert toolbar.allocate.text() == "Allocate"
    toolbar.joint.read.setValue(3.25)
    toolbar.allocate.click()
    toolbar.joint.read.setValue(0.0)
    toolbar.joint.held.setValue(4.5)
    assert toolbar.joint.read.text() == "any"
    toolbar.allocate.click()
    assert asked == [JointBudget(3.25, None), JointBudget(None, 4.5)]
    toolbar.show_allocating(True)
    assert not toolbar.joint.isEnabled()
    toolbar.show_allocating(False)
    toolbar.allocator.setCurrentText("Curves")
    assert not toolbar.joint.isVisible()
    assert toolbar.budget.isVisible()
