"""From a selected cell to a job, and from the engine's answer to masks that follow the plan."""

import pytest
from wina_app.pages.gate_inspector.controller import GateController
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.pages.gate_inspector.view_state import PROMPT, compared_methods, target_of
from wina_app.shared import product_question

from tests.wina_app.fakes import Recorded, done, load, make_workbench, result
from tests.wina_app.pages.gate_inspector.samples import answer
from tests.wina_app.stored_runs import SOURCE, layout
from wina_core.jobs import InspectGateJob, RotateJob
from wina_core.jobs.planning import MissingProduct
from wina_core.records.gates import GateTarget
from wina_core.specs import MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import SparsityPlan

TEAL, WINA, CATS = (MethodSpec(name=name) for name in ("teal", "wina", "cats"))
DOWN = (2, 6)


class Bench:
    """A controller with a loaded model, over an engine that answers when told to."""

    def __init__(self, tmp_path) -> None:
        self.workbench, self.engine, self.store = make_workbench(tmp_path)
        self.view = Recorded(GateInspector)
        self.controller = GateController(self.workbench, self.view)

    def reply(self) -> None:
        self.engine.answer(result(answer(self.engine.last.job)), done())

    @property
    def shown(self) -> tuple[object, tuple]:
        """What the view was told to show last."""
        return next(args for name, args, _ in reversed(self.view._calls) if name == "show_cell")

    @property
    def reason(self) -> str:
        return next(args[1] for name, args, _ in reversed(self.view._calls) if name == "show_action")

    def edit(self, cells: dict) -> None:
        workspace = self.workbench.workspace
        workspace.set_plan(workspace.plan.with_cells(cells))
        self.controller._live.timeout.emit()


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals and timers need an application
    made = Bench(tmp_path)
    load(made.workbench)
    made.controller.set_visible(True)
    yield made
    made.store.store.close()


def test_it_says_what_is_missing(tmp_path, qapp):  # noqa: ARG001 - as above
    made = Bench(tmp_path)
    assert made.reason == "Open a model first"
    load(made.workbench)
    assert made.reason == "Select one cell of the heatmap first"
    made.controller.select(DOWN)
    assert made.reason == ""
    made.controller.set_prompt("  ")
    assert made.reason == "Type a prompt first"
    made.controller.inspect()
    assert not made.engine.submitted
    made.store.store.close()


def test_the_job_names_the_cell_the_methods_and_their_targets(bench):
    rotation = RotationSpec(mode="per_layer")
    bench.workbench.workspace.set_rotation(rotation)
    bench.controller.select(DOWN)
    bench.edit({DOWN: 0.625})
    bench.controller.tick(CATS, True)
    bench.controller.inspect()
    assert bench.engine.last.job == InspectGateJob(
        model=SOURCE,
        rotation=rotation,
        layer=2,
        projection="down",
        prompt=PROMPT,
        gates=tuple(GateTarget(method=method, target=0.625) for method in (WINA, TEAL, CATS)),
    )
    assert bench.reason == "An inspection is running"
    bench.controller.inspect()
    assert len(bench.engine.submitted) == 1


def test_methods_that_say_nothing_about_a_cell_are_left_out_with_the_reason(bench):
    bench.controller.tick(CATS, True)
    bench.controller.select((0, 0))
    bench.controller.inspect()
    assert [each.method for each in bench.engine.last.job.gates] == [WINA, TEAL]
    reasons = {each.method.name: each.reason for each in compared_methods(WINA, "up", {"cats": True})}
    assert reasons["cats"] == "It drops rows of up by the mask of down; select that"
    assert reasons["teal"] == ""


def test_the_answer_is_shown_at_the_plans_targets_and_follows_them_without_the_engine(bench):
    bench.controller.select(DOWN)
    bench.controller.inspect()
    bench.reply()
    cell, (wina, teal) = bench.shown
    assert (wina.method, teal.method) == (WINA, TEAL)
    assert wina.mask.sum(axis=1).tolist() == [30] * 6
    assert (wina.kept, wina.error, wina.outdated) == (30.0, 0.125, False)
    bench.edit({DOWN: 0.8})
    again, (wina, teal) = bench.shown
    assert again is cell
    assert wina.mask.sum(axis=1).tolist() == [12] * 6
    assert wina.mask.tolist() == (cell.gates[0].scores >= wina.boundaries[:, None]).tolist()
    assert 0 < wina.energy < cell.gates[0].decision.kept_energy
    assert wina.error is None, "only the engine can tell"
    assert len(bench.engine.submitted) == 1
    bench.controller.inspect()
    assert [each.target for each in bench.engine.last.job.gates] == [0.8, 0.8]
    bench.reply()
    assert bench.shown[1][0].error == 0.125


def test_the_next_cell_is_inspected_by_itself_while_the_engine_is_free(bench):
    bench.controller.select(DOWN)
    assert not bench.controller._pause.isActive(), "the first is asked for"
    bench.controller.inspect()
    bench.reply()
    first = bench.shown[0]
    sent = len(bench.engine.submitted)
    bench.controller.select((5, 1))
    assert bench.shown[0] is None
    assert bench.controller._pause.isActive()
    bench.controller._pause.timeout.emit()
    assert (bench.engine.last.job.layer, bench.engine.last.job.projection) == (5, "k")
    bench.reply()
    assert bench.shown[0].record.layer == 5
    bench.controller.select(DOWN)
    assert bench.shown[0] is first, "what was inspected is shown again at once"
    assert not bench.controller._pause.isActive()
    assert len(bench.engine.submitted) == sent + 1


def test_nothing_is_inspected_by_itself_unseen_or_while_the_engine_works(bench):
    bench.controller.select(DOWN)
    bench.controller.inspect()
    bench.reply()
    bench.controller.select((0, 0))
    bench.workbench.submit(bench.engine.last.job, "something else")
    sent = len(bench.engine.submitted)
    bench.controller._pause.timeout.emit()
    assert len(bench.engine.submitted) == sent
    bench.engine.answer(done())
    bench.controller.set_visible(False)
    bench.controller._pause.timeout.emit()
    assert len(bench.engine.submitted) == sent


def test_a_long_rotation_is_asked_for_and_never_begins_by_itself(bench, monkeypatch):
    job = RotateJob(model=SOURCE, rotation=RotationSpec())
    long = MissingProduct("rotation", "global refined", job, seconds=600.0)
    monkeypatch.setattr(product_question, "missing_products", lambda _job: (long,))
    bench.controller.select(DOWN)
    bench.controller.inspect()
    assert "global refined" in bench.view.last("ask_compute").text
    assert not bench.engine.submitted, "the view said no"
    bench.controller._pause.timeout.emit()
    assert len(bench.view.calls("ask_compute")) == 1, "what nobody requested asks nothing"
    assert not bench.engine.submitted
    bench.view.returns(ask_compute=True)
    bench.controller.inspect()
    assert isinstance(bench.engine.last.job, InspectGateJob)


def test_an_answer_for_a_model_that_is_closed_is_dropped(bench):
    bench.controller.select(DOWN)
    bench.controller.inspect()
    load(bench.workbench, ModelSource(location="other"))
    bench.controller.select(DOWN)
    bench.reply()
    assert bench.shown[0] is None


def test_targets_are_those_of_the_mask():
    plan = SparsityPlan.uniform(layout(), 0.5).with_cells({(0, 0): 0.8})
    shared = MethodSpec(name="wina", masks="shared")
    (q, k, v), total = (65536, 16384, 16384), 65536 + 2 * 16384
    assert target_of(plan, WINA, (0, 0)).target == 0.8
    assert target_of(plan, shared, (0, 1)).target == pytest.approx((0.8 * q + 0.5 * (k + v)) / total)
    table = ((0.7,) * 7,) * 8
    with_rho = plan.model_copy(update={"rho": table})
    assert target_of(with_rho, MethodSpec(name="rsparse"), (0, 0)).rho == 0.7
    assert target_of(with_rho, shared, (0, 0)).rho is None
