"""The Sparsity page's logic, driven without a widget: a fake view, a real database."""

import numpy as np
import pytest
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.services.workspace import Workspace

from tests.wina_app.stored_runs import (
    GLOBAL,
    SOURCE,
    DirectStore,
    layout,
    record_calibration,
    record_run,
    run_spec,
    summary,
)
from wina_core.records import LayerRecord, MetricRecord, UnitRecord
from wina_core.specs import (
    FIDELITY,
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    BitsPlan,
    Configuration,
    MethodSpec,
    QuantizationSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec

_SHOWN = {
    "show_map": ("key", "values", "selection", "remark", "notes"),
    "show_experts": ("counts", "details", "widest"),
    "show_bits": ("bits",),
    "show_values": ("kind",),
    "show_figures": ("figures", "other"),
    "show_error": ("error",),
}
"""Names of the arguments by the method of the page."""


class FakeView:
    """A page that has what it and its parts were given last as attributes."""

    def __getattr__(self, name: str):
        if name in ("toolbar", "quantization", "editor"):
            return self
        return lambda *args, **_: self.__dict__.update(zip(_SHOWN.get(name, ()), args, strict=False))


@pytest.fixture
def bench(qapp, store):  # noqa: ARG001 - signals need an application
    """(controller, view, workspace, database) with the model open."""
    workspace, view, access = Workspace(), FakeView(), DirectStore(store)
    controller = SparsityController(workspace, access, view)
    workspace.set_model(SOURCE, summary())
    return controller, view, workspace, access


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SparsityPlan.uniform(layout(4), 0.3).model_dump_json(), "was made for a model with 4 layers"),
        ("{}", "is not a sparsity plan"),
    ],
    ids=["another model", "no plan"],
)
def test_a_file_that_does_not_fit_is_refused_and_loses_nothing(bench, tmp_path, text, problem):
    controller, view, workspace, _ = bench
    (tmp_path / "plan.json").write_text(text)
    before = workspace.plan
    controller.open_plan(tmp_path / "plan.json")
    assert problem in view.error
    assert workspace.plan == before


def test_the_plan_of_a_run_is_opened_with_its_bits_as_one_step(bench, store):
    controller, view, workspace, _ = bench
    plan = workspace.plan.with_cells({(0, 0): 0.3})
    spec = run_spec("wina", NO_ROTATION, plan)
    bits = QuantizationSpec(quantizer="rtn", bits=BitsPlan.uniform(layout(), 4).with_cells({(1, 1): 2}))
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"quantization": bits})})
    record_run(store, spec)
    before = workspace.plan
    controller.open_run(spec.content_hash())
    assert (workspace.plan, workspace.quantization) == (plan, bits)
    controller.show("bits")
    assert view.values[1, 1] == 2
    controller.editing.undo_stack.undo()
    assert (workspace.plan, workspace.quantization) == (before, "none")
    controller.open_run("unknown")
    assert "No run unknown is stored" in view.error


def test_each_map_shows_the_numbers_of_the_other_beside_its_own(bench):
    controller, view, workspace, _ = bench
    assert view.notes == ()
    controller.show("bits")
    assert view.kind.name == "Code width"
    assert view.notes[0][0] == "50 %"
    controller.editing.paint(frozenset({(0, 0)}), 4)
    assert view.values[0, 0] == 4
    assert view.bits.quantization == workspace.quantization
    controller.show("target")
    assert (view.kind.name, view.notes[0][:2]) == ("Target sparsity", ("4 b", "16 b"))
    assert "bits: 4 bits" in controller.cell_text((0, 0))
    controller.show("measured")
    assert view.notes == ()


def test_measured_sparsity_comes_from_a_run_with_exactly_this_plan(bench, store):
    controller, view, workspace, access = bench
    workspace.set_rotation(GLOBAL)
    controller.show("measured")
    assert np.isnan(view.values).all()
    assert "evaluate it" in view.remark
    record_run(store, run_spec("wina", NO_ROTATION, 0.5), name="another rotation")
    record_run(store, run_spec("teal", GLOBAL, 0.5), name="another method")
    access.changed.emit()
    assert np.isnan(view.values).all()
    record_run(store, run_spec("wina", GLOBAL, 0.5))
    access.changed.emit()
    assert view.remark == ""
    assert np.abs(view.values - 0.5).max() == pytest.approx(0.01, abs=2e-3)
    assert view.figures.measured == pytest.approx(0.5, abs=0.01)
    controller.show("difference")
    assert np.abs(view.values).max() == pytest.approx(0.01, abs=2e-3)


CURVES = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves"))


@pytest.mark.parametrize("rho", [None, ((0.9,) * 7,) * 8], ids=["targets", "targets and rho"])
def test_an_allocated_run_is_known_by_the_table_that_is_stored_with_it(bench, store, rho):
    """Its spec has the budget alone, which the table meets only nearly."""
    controller, view, workspace, access = bench
    controller.show("measured")
    values = workspace.plan.with_cells({(0, 0): 0.3, (7, 6): 0.6}).sparsity
    found = SparsityPlan(layout=layout(), sparsity=values, provenance=CURVES.provenance, rho=rho)
    assert abs(found.budget - CURVES.budget) > 1e-4
    controller.editing.replace_plan(PlanPair(plan=found), "allocate")
    record_allocated(store, workspace, found)
    access.changed.emit()
    assert view.remark == ""
    assert (view.values == 0.5).all()
    other_rho = ((0.8,) * 7,) * 8
    for other in (found.with_cells({(3, 3): 0.4}, CURVES.provenance), found.model_copy(update={"rho": other_rho})):
        controller.editing.replace_plan(PlanPair(plan=other), "another table")
        assert np.isnan(view.values).all()


def record_allocated(store, workspace, table):
    """A run of CURVES that dropped half of everything, with the table that was found for it."""
    spec = run_spec("wina", workspace.rotation, 0.5).model_copy(update={"plan": CURVES})
    tables = {"sparsity": ((0.5,) * 7,) * 8}
    if table is not None:
        tables |= {"target": table.sparsity, "rho": table.rho}
    layers = tuple(
        LayerRecord(layer=layer, projection=projection, metric=metric, value=value)
        for metric, values in tables.items()
        for layer, row in enumerate(values or ())
        for projection, value in zip(layout().projections, row, strict=True)
    )
    store.save_study(StudySpec(name="allocated", models=(SOURCE,), configurations=(Configuration(),)), [spec])
    metric = MetricRecord(task="t", metric="kl", value=0.1)
    unit = UnitRecord(run=spec.content_hash(), unit=FIDELITY, metrics=(metric,), layers=layers, seconds=1.0)
    store.record_unit(unit)


def test_predictions_follow_calibration_and_edits(bench, store):
    controller, view, workspace, access = bench
    controller.show("predicted")
    assert np.isnan(view.values).all()
    assert "press Calibrate" in view.remark
    assert view.figures.predicted is None
    assert "press Calibrate" in view.figures.reasons["predicted"]
    record_calibration(store, workspace.method, workspace.rotation)
    access.changed.emit()
    assert view.values[0, 0] == pytest.approx(0.25, rel=0.01)
    assert view.figures.predicted is not None
    controller.editing.paint(frozenset({(0, 0)}), 0.25)
    assert view.values[0, 0] == pytest.approx(0.0625, rel=0.05)
    workspace.set_method(MethodSpec(name="teal"))
    assert np.isnan(view.values).all(), "the curves are another method's"


@pytest.mark.usefixtures("qapp")
def test_late_answers_about_an_earlier_plan_are_dropped(store):
    """The store answers later, on another thread; by then the plan may have changed."""

    class SlowStore(DirectStore):
        def __init__(self, opened):
            super().__init__(opened)
            self.waiting = []

        def ask(self, question, answer=None, refused=None):  # noqa: ARG002
            self.waiting.append((question, answer))

        def work(self):
            question, answer = self.waiting.pop(0)
            answer(question(self.store))

    record_run(store, run_spec("wina", Workspace().rotation, 0.5))
    workspace, view, access = Workspace(), FakeView(), SlowStore(store)
    controller = SparsityController(workspace, access, view)
    workspace.set_model(SOURCE, summary())
    controller.show("measured")
    for value in (0.1, 0.2, 0.3):
        controller.editing.paint(frozenset({(0, 0)}), value)
    assert len(access.waiting) == 1, "one question at a time"
    access.work()
    assert np.isnan(view.values).all(), "the answer was about the plan before the edits"
    controller.editing.undo_stack.undo()
    controller.editing.undo_stack.undo()
    controller.editing.undo_stack.undo()
    while access.waiting:
        access.work()
    assert not np.isnan(view.values).any()
