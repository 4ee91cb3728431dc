"""Editing the plan and taking it back, without a widget."""

import numpy as np
import pytest
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.services.workspace import Workspace

from tests.wina_app.fakes import Recorded
from tests.wina_app.stored_runs import SOURCE, layout, summary
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair

UNIFORM = SparsityPlan.uniform(layout(4), 0.5)


@pytest.fixture
def bench(qapp):  # noqa: ARG001 - signals need an application
    """(editing, view, workspace) with four layers at 50 %."""
    workspace, view = Workspace(), Recorded(SparsityPage)
    editing = PlanEditor(workspace, view)
    workspace.set_model(SOURCE, summary(4))
    return editing, view, workspace


def select(editing, *cells):
    editing.select(frozenset(cells))


def everything(editing, workspace):
    return workspace.plan, workspace.method, editing.locked, editing.kept_budget


EDITS = {
    "set 1 cell to 70.0 %": lambda e: e.paint(frozenset({(0, 0)}), 0.7),
    "change 2 cells by +5 points": lambda e: e.step(5),
    "clear 2 cells": lambda e: e.clear_targets(),
    "cut 2 cells": lambda e: e.cut(),
    "paste 2 cells": lambda e: e.paste("10\t20", Selection(4, 7).click((1, 1))),
    "move 1 cell by -7.5 points": lambda e: e.shift(frozenset({(3, 3)}), -7.5),
    "lock 2 cells": lambda e: e.toggle_locks(),
    "uniform plan of 25.0 %": lambda e: e.set_uniform(0.25),
    "open x.json": lambda e: e.replace_plan(PlanPair(plan=UNIFORM.with_cells({(2, 2): 0.1})), "open x.json"),
    "keep the budget of 50.0 %": lambda e: e.keep_budget(True),
    "choose teal": lambda e: e.set_method(MethodSpec(name="teal")),
}


def test_everything_is_one_step_that_says_what_it_takes_back(bench):
    editing, _, workspace = bench
    select(editing, (1, 1), (1, 2))
    before = everything(editing, workspace)
    for text, edit in EDITS.items():
        edit(editing)
        after = everything(editing, workspace)
        assert after != before, text
        assert (editing.undo_stack.count(), editing.undo_stack.undoText()) == (1, text)
        editing.undo_stack.undo()
        assert everything(editing, workspace) == before, text
        editing.undo_stack.redo()
        assert everything(editing, workspace) == after, text
        editing.undo_stack.undo()
        editing.undo_stack.clear()


def test_a_gesture_is_one_step_and_counts_all_its_cells(bench):
    editing, _, workspace = bench
    editing.begin_gesture()
    for row in range(3):
        editing.paint(frozenset({(row, 2)}), 0.8)
    editing.end_gesture()
    editing.paint(frozenset({(3, 2)}), 0.8)
    assert editing.undo_stack.count() == 2
    assert editing.undo_stack.text(0) == "set 3 cells to 80.0 %"
    editing.undo_stack.undo()
    editing.undo_stack.undo()
    assert workspace.plan == UNIFORM


LOCKED = (2, 3)
CHANGES = {
    "paint": lambda e: e.paint(frozenset({LOCKED, (0, 0)}), 0.9),
    "step": lambda e: e.step(-20),
    "type": lambda e: e.type_target("12"),
    "clear": lambda e: e.clear_targets(),
    "cut": lambda e: e.cut(),
    "paste": lambda e: e.paste("7", Selection(4, 7).all()),
    "shift": lambda e: e.shift(frozenset({LOCKED}), 9.0),
    "uniform": lambda e: e.set_uniform(0.1),
    "allocation": lambda e: e.replace_plan(PlanPair(plan=SparsityPlan.uniform(layout(4), 0.7)), "allocate by curves"),
}


@pytest.mark.parametrize("keep", [False, True])
def test_nothing_changes_a_locked_cell(bench, keep):
    editing, _, workspace = bench
    workspace.set_plan(UNIFORM.with_cells({LOCKED: 0.42}))
    select(editing, LOCKED)
    editing.toggle_locks()
    editing.keep_budget(keep)
    select(editing, LOCKED, (0, 5))
    for change, edit in CHANGES.items():
        edit(editing)
        assert workspace.plan.sparsity[2][3] == 0.42, change


def test_the_kept_budget_is_exact_and_is_the_new_plans_after_another_was_taken_over(bench):
    editing, view, workspace = bench
    editing.keep_budget(True)
    assert view.last("show_kept") == 0.5
    editing.paint(frozenset({(0, 4), (1, 6)}), 0.9)
    editing.paint(frozenset({(2, 2)}), 0.0)
    assert workspace.plan.budget == pytest.approx(0.5, abs=1e-9)
    assert workspace.plan.sparsity[2][2] == 0.0
    editing.set_uniform(0.25)
    assert view.last("show_kept") == pytest.approx(0.25)
    editing.paint(frozenset({(0, 4)}), 0.9)
    assert workspace.plan.budget == pytest.approx(0.25, abs=1e-9)
    editing.undo_stack.undo()
    editing.undo_stack.undo()
    assert view.last("show_kept") == 0.5


def test_a_budget_that_cannot_be_kept_is_said_and_kept_again_as_soon_as_it_can(bench):
    editing, view, workspace = bench
    editing.keep_budget(True)
    select(editing, *((row, column) for row in range(4) for column in range(7) if (row, column) != (0, 1)))
    editing.set_target(0.2)
    assert "cannot be kept" in view.last("show_notice")
    assert workspace.plan.budget < 0.4
    select(editing, (0, 0))
    editing.set_target(0.2001)
    assert workspace.plan.budget == pytest.approx(0.5, abs=1e-9)
    assert view.calls("clear_message")


def test_a_paste_says_what_was_left_out(bench):
    editing, view, workspace = bench
    editing.paste("10\t20", Selection(4, 7).click((0, 6)))
    assert workspace.plan == UNIFORM.with_cells({(0, 6): 0.1})
    assert "1 cell of the block beyond the table" in view.last("show_notice")


def test_another_models_plan_is_refused_and_starts_with_no_locks_and_no_history(bench):
    editing, view, workspace = bench
    editing.replace_plan(PlanPair(plan=SparsityPlan.uniform(layout(5), 0.5)), "open")
    assert "5 layers" in view.last("show_error")
    select(editing, (0, 0))
    editing.toggle_locks()
    editing.keep_budget(True)
    workspace.set_model(SOURCE, summary(4))
    assert editing.locked == {(0, 0)}, "the same model, opened again, has the plan and the locks that it had"
    workspace.set_model(SOURCE, summary(5))
    assert (editing.locked, editing.kept_budget, editing.undo_stack.count()) == (frozenset(), None, 0)
    assert np.array(workspace.plan.sparsity).shape == (5, 7)


def test_what_is_costly_to_find_out_waits_for_the_end_of_a_gesture(bench):
    editing, _, _ = bench
    settled = []
    editing.settled.connect(lambda: settled.append(editing.in_gesture))
    editing.begin_gesture()
    editing.paint(frozenset({(0, 0)}), 0.9)
    assert settled == []
    editing.end_gesture()
    editing.paint(frozenset({(0, 0)}), 0.8)
    assert settled == [False, False]


def test_a_plan_without_a_model_says_what_it_lacks(qapp):  # noqa: ARG001 - signals need an application
    view = Recorded(SparsityPage)
    PlanEditor(Workspace(), view).replace_plan(PlanPair(plan=UNIFORM), "open")
    assert "No model is open" in view.last("show_error")
