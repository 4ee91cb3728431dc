"""Editing the bits of the model with the editor of the plan, without a widget."""

import pytest
from wina_app.heatmap.selection import Selection
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.services.workspace import Workspace

from tests.wina_app.fakes import Recorded
from tests.wina_app.stored_runs import SOURCE, layout, summary
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair

HALF = SparsityPlan.uniform(layout(4), 0.5)
PAIR = PlanPair(plan=HALF.with_cells({(0, 0): 0.1}), quantization="int8")


@pytest.fixture
def bench(qapp):  # noqa: ARG001 - signals need an application
    """(editing, view, workspace) with four layers at 50 % in 4 bits, whose bits are edited."""
    workspace, view = Workspace(), Recorded(SparsityPage)
    editing = PlanEditor(workspace, view)
    workspace.set_model(SOURCE, summary(4))
    editing.edit("bits")
    editing.set_uniform_bits(4)
    editing.undo_stack.clear()
    return editing, view, workspace


def bits_of(workspace):
    return workspace.quantization.plan(layout(4)).bits


EDITS = {
    "set 1 cell to 8 bits": lambda e: e.paint(frozenset({(0, 0)}), 8),
    "more bits for 2 cells": lambda e: e.step(5),
    "clear 2 cells": lambda e: e.clear_targets(),
    "cut 2 cells": lambda e: e.cut(),
    "paste 2 cells": lambda e: e.paste("2\t8", Selection(4, 7).click((1, 1))),
    "move 1 cell by -1.2 bits": lambda e: e.shift(frozenset({(3, 3)}), -1.2),
    "lock 2 cells": lambda e: e.toggle_locks(),
    "keep the budget of 4 bits": lambda e: e.keep_budget(True),
    "uniform plan of 3 bits": lambda e: e.set_uniform_bits(3),
    "quantize with group 32": lambda e: e.change_quantizer(group=32),
    "bits by energy": lambda e: e.change_quantizer(by_energy=True),
    "quantize with head bits 8": lambda e: e.change_quantizer(head_bits=8),
    "open x.json": lambda e: e.replace_plan(PAIR, "open x.json"),
}


def test_every_edit_of_bits_is_one_step_that_leaves_the_other_map(bench):
    editing, _, workspace = bench
    editing.select(frozenset({(1, 1), (1, 2)}))

    def everything():
        return workspace.quantization, editing.bits, editing.locked, editing.kept_budget

    for text, edit in EDITS.items():
        before, plan = everything(), workspace.plan
        edit(editing)
        after = everything()
        assert after != before, text
        assert workspace.plan is plan or text == "open x.json"
        assert (editing.undo_stack.count(), editing.undo_stack.undoText()) == (1, text)
        editing.undo_stack.undo()
        assert (everything(), workspace.plan) == (before, plan), text
        editing.undo_stack.redo()
        assert everything() == after, text
        editing.undo_stack.undo()
        editing.undo_stack.clear()


def test_equal_cells_are_one_number_and_sixteen_bits_no_quantization(bench):
    editing, _, workspace = bench
    assert workspace.quantization == QuantizationSpec(quantizer="hqq", bits=4)
    editing.paint(frozenset({(0, 0)}), 8)
    assert isinstance(workspace.quantization.bits, BitsPlan)
    assert bits_of(workspace)[0] == (8, 4, 4, 4, 4, 4, 4)
    editing.paint(frozenset({(0, 0)}), 4)
    assert workspace.quantization == QuantizationSpec(quantizer="hqq", bits=4)
    editing.change_quantizer(quantizer="gptq")
    editing.set_uniform_bits(16)
    assert workspace.quantization == "none"
    assert workspace.source == SOURCE
    editing.set_uniform_bits(3)
    assert workspace.quantization == QuantizationSpec(quantizer="gptq", bits=3), "the quantizer stayed chosen"


def test_a_quantization_of_the_model_page_is_shown_and_comes_back_by_undo(bench):
    editing, _, workspace = bench
    workspace.set_model(SOURCE.model_copy(update={"quantization": "int8"}), summary(4))
    assert editing.bits.table.rows == ((8,) * 7,) * 4
    editing.paint(frozenset({(2, 2)}), 4)
    assert workspace.quantization.quantizer == "rtn"
    editing.undo_stack.undo()
    assert workspace.quantization == "int8"


def test_locks_and_budgets_belong_to_one_map(bench):
    editing, view, workspace = bench
    editing.select(frozenset({(0, 0)}))
    editing.toggle_locks()
    editing.keep_budget(True)
    editing.edit("sparsity")
    assert (editing.locked, editing.kept_budget) == (frozenset(), None)
    assert view.last("show_locks") == frozenset()
    editing.set_target(0.9)
    assert workspace.plan == HALF.with_cells({(0, 0): 0.9})
    editing.edit("bits")
    editing.set_target(8)
    assert view.last("show_notice").startswith("The cell is locked")
    editing.paint(frozenset({(1, 1)}), 16)
    assert workspace.quantization.mean_bits <= 4
    assert bits_of(workspace)[1][1] == 16
    assert bits_of(workspace)[0][0] == 4


def test_means_are_rounded_to_widths_once_energy_no_longer_counts(bench):
    editing, view, workspace = bench
    editing.change_quantizer(by_energy=True)
    assert view.last("show_values").by_energy
    editing.paint(frozenset({(0, 0)}), 4.6)
    assert bits_of(workspace)[0][0] == 4.6
    editing.change_quantizer(by_energy=False)
    assert workspace.quantization == QuantizationSpec(quantizer="hqq", bits=4)
    assert not view.last("show_values").by_energy
    editing.undo_stack.undo()
    assert bits_of(workspace)[0][0] == 4.6


def test_planes_keep_the_energy_and_take_the_nearest_bits_they_have(bench):
    editing, view, workspace = bench
    editing.paint(frozenset({(0, 0)}), 3)
    editing.change_quantizer(quantizer="planes")
    assert bits_of(workspace)[0][:2] == (2, 4)
    editing.change_quantizer(by_energy=True)
    assert (workspace.quantization.quantizer, workspace.quantization.by_energy) == ("planes", True)
    editing.paint(frozenset({(0, 0)}), 9.5)
    editing.paint(frozenset({(0, 1)}), 14.5)
    assert bits_of(workspace)[0][:2] == (9.5, 16)
    assert view.last("show_values").by_energy
    editing.change_quantizer(quantizer="gptq")
    assert workspace.quantization.by_energy
    assert bits_of(workspace)[0][0] == 9.5
