"""The Evaluate page's own conduct; what it counts and queues is the controller's."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from wina_app.pages.evaluate.configurations_panel import ConfigurationsPanel
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.shared.evaluation_choice import (
    FIRST_DOCUMENTS,
    FIRST_SPARSITIES,
    FIRST_TASKS,
    FIRST_TOKENS,
)
from wina_app.shared.run_grid import Cell, Grid

from tests.wina_app.stored_runs import summary
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    DENSE,
    NO_ROTATION,
    Configuration,
    MethodSpec,
    RotationSpec,
)
from wina_core.studies.tasks.task_folder import RISK

LAYERWISE = RotationSpec(mode="per_layer")


@pytest.fixture
def page(qtbot) -> EvaluatePage:
    page = EvaluatePage()
    qtbot.addWidget(page)
    page.configurations.show_plan(0.6, "edited")
    page.configurations.show_rotations([("none", NO_ROTATION), ("per_layer + heads", LAYERWISE)], LAYERWISE, None)
    return page


def only(boxes, *labels: str) -> None:
    """Tick these and nothing else."""
    for box in boxes:
        box.setChecked(box.text() in labels)


def choose(combo, key: str) -> None:
    """Pick an entry by what it stands for."""
    combo.setCurrentIndex(combo.findData(key))


def test_choosing_a_plan_asks_for_dense_and_that_plan_alone(page) -> None:
    method = MethodSpec(name="wina", selection="threshold", masks="shared", correction="mean")
    page.configurations.choose_plan(method, LAYERWISE)
    choice = page.choice()
    assert choice.methods == (DENSE, method)
    assert choice.rotations == (LAYERWISE,)
    assert choice.sparsities == ""
    assert choice.with_plan


def test_the_demo_begins_with_a_part_of_its_tasks_and_other_models_with_none(page) -> None:
    page.suit_model(is_demo=False)
    assert (page.choice().tasks, page.choice().limit) == ((), None)
    page.suit_model(is_demo=True)
    assert (page.choice().tasks, page.choice().limit) == (FIRST_TASKS, FIRST_DOCUMENTS)
    assert (page.choice().fidelity_tokens, page.choice().sparsities) == (FIRST_TOKENS, FIRST_SPARSITIES)


def test_the_chat_template_is_offered_where_the_model_has_one(page) -> None:
    page.tasks.chat_template.setChecked(True)
    assert not page.choice().chat_template
    assert "no chat template" in page.tasks.chat_template.toolTip()
    page.tasks.show_template(available=True)
    assert page.choice().chat_template
    page.tasks.show_template(available=False)
    assert not page.choice().chat_template


def test_what_was_chosen_for_one_model_stays_for_the_next(page) -> None:
    page.suit_model(is_demo=True)
    page.tasks.limit.setValue(7)
    page.tasks.add_tasks(["piqa"])
    page.suit_model(is_demo=False)
    assert (page.choice().tasks, page.choice().limit) == (("piqa",), 7)
    page.suit_model(is_demo=True)
    assert (page.choice().tasks, page.choice().limit) == ((*FIRST_TASKS, "piqa"), 7)


def test_the_gating_reaches_the_methods_it_applies_to(page) -> None:
    only(page.configurations.methods, "dense", "teal", "wina")
    choose(page.configurations.selection, "statistical")
    choose(page.configurations.masks, "shared")
    choose(page.configurations.correction, "mean")
    assert page.choice().methods == (
        DENSE,
        MethodSpec(name="teal", selection="statistical", correction="mean"),
        MethodSpec(name="wina", selection="statistical", correction="mean", masks="shared"),
    )


def test_controls_that_do_not_apply_are_disabled_with_a_reason(page) -> None:
    configurations = page.configurations
    only(configurations.methods, "dense")
    for control, word in (
        (configurations.masks, "column norms"),
        (configurations.rho, "R-Sparse"),
        (configurations.correction, "drops nothing"),
    ):
        assert not control.isEnabled()
        assert word in control.toolTip()
    only(configurations.methods, "wina")
    assert configurations.masks.isEnabled()
    assert configurations.masks.toolTip() == ""
    assert not configurations.calibration.isEnabled()
    choose(configurations.selection, "threshold")
    assert configurations.calibration.isEnabled()
    configurations.sparsities.clear()
    assert not any(box.isEnabled() for box in configurations.allocators)
    assert "plan" in next(iter(configurations.allocators)).toolTip()


def test_a_named_configuration_brings_its_own_rotation(qtbot) -> None:
    configuration = Configuration(method=MethodSpec(name="teal"), rotation=AS_RELEASED_ROTATION)
    panel = ConfigurationsPanel({"TEAL-transform": configuration})
    qtbot.addWidget(panel)
    only(panel.methods)
    only(panel.named, "TEAL-transform")
    choose(panel.selection, "threshold")
    threshold = MethodSpec(name="teal", selection="threshold")
    assert panel.fields()["configurations"] == (Configuration(method=threshold, rotation=AS_RELEASED_ROTATION),)
    assert panel.fields()["methods"] == ()


def test_rotations_that_are_not_exact_cannot_be_ticked_and_say_why(page) -> None:
    reason = "No per_layer rotation is exact here, because the norm is a LayerNorm."
    refusing = summary().model_copy(update={"rotations": ("none", "global"), "rotation_reason": reason})
    page.configurations.show_rotations([("none", NO_ROTATION), ("per_layer + heads", LAYERWISE)], LAYERWISE, refusing)
    box = list(page.configurations.rotations)[1]
    assert (box.isEnabled(), box.isChecked(), box.toolTip()) == (False, False, reason)
    published = next(box for box in page.configurations.named if box.text() == "teal-transform")
    assert (published.isEnabled(), published.toolTip()) == (False, reason)
    assert page.choice().rotations == (NO_ROTATION,)


def test_a_newly_chosen_rotation_takes_over_the_tick_of_the_one_before(page) -> None:
    free = RotationSpec()
    offered = [("none", NO_ROTATION), ("per_layer + heads", LAYERWISE), ("global + heads", free)]
    page.configurations.show_rotations(offered, free, None)
    assert page.choice().rotations == (NO_ROTATION, free)
    for box, spec in page.configurations.rotations.items():
        box.setChecked(spec == LAYERWISE)
    page.configurations.show_rotations(offered, LAYERWISE, None)
    page.configurations.show_rotations(offered, LAYERWISE, None)
    assert page.choice().rotations == (LAYERWISE,), "what was ticked by hand stays so"


def test_consent_lies_under_advanced_states_the_risk_and_is_off(page) -> None:
    page.show()
    consent, risk = page.tasks.options.consent, page.tasks.options.risk
    assert not consent.isVisible()
    assert not page.choice().run_model_code
    page.tasks.advanced.open(True)
    assert consent.isVisible()
    assert not risk.isVisible()
    assert RISK in consent.toolTip()
    assert RISK in consent.accessibleDescription()
    consent.setChecked(True)
    assert (risk.isVisible(), risk.text()) == (True, RISK)
    assert page.choice().run_model_code
    page.tasks.options.withdraw_consent()
    assert not page.choice().run_model_code


@pytest.mark.parametrize(
    ("typed", "kind", "saved"),
    [("a.toml", "", "a.toml"), ("a.json", "", "a.json"), ("a", "Study (*.toml)", "a.toml"), ("v1.5", "", "v1.5.toml")],
)
def test_a_study_is_saved_as_toml_unless_json_is_asked_for(page, qtbot, monkeypatch, typed, kind, saved) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (f"/x/{typed}", kind))
    with qtbot.waitSignal(page.save_requested) as asked:
        page._choose_file()
    assert asked.args == [Path(f"/x/{saved}")]


def test_runs_that_are_queued_or_running_are_counted_apart(page) -> None:
    cells = {("wina", str(number)): Cell(str(number), 1, int(number > 0), number > 0) for number in range(4)}
    grid = Grid(("wina",), tuple(map(str, range(4))), cells)
    page.show_grid(grid)
    assert page._summary.text() == "4 runs in all  ·  0 to do  ·  3 queued or running  ·  1 stored"
    assert (page.primary.text(), page.primary.isEnabled()) == ("Evaluate", False)
