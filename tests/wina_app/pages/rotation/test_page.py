"""The Rotation page's controls: what they stand for, and when they mean nothing."""

import json

import pytest
from wina_app.pages.rotation.page import RotationPage
from wina_app.shared.rotation_choices import CUSTOM

from tests.wina_app.stored_runs import summary
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AUTO_ROTATION,
    FREE_KL_ROTATION,
    FREE_ROTATION,
    NO_ROTATION,
    RotationSpec,
)


@pytest.fixture
def page(qtbot) -> RotationPage:
    page = RotationPage()
    qtbot.addWidget(page)
    page.show_context([], summary())
    page.panel.show_choice(FREE_ROTATION)
    return page


def test_a_changed_control_is_heard_and_no_preset_any_more(qtbot, page):
    panel = page.panel
    panel.objective.setCurrentIndex(panel.objective.findData("kl"))
    with qtbot.waitSignal(page.choice_changed):
        panel.objective.activated.emit(panel.objective.currentIndex())
    assert RotationSpec.model_validate(page.panel.fields()) == FREE_KL_ROTATION  # its usual steps and text came along
    panel.steps.setValue(7)
    page.panel.show_choice(RotationSpec.model_validate(page.panel.fields()))
    assert panel.preset.currentText() == CUSTOM


def test_what_means_nothing_is_disabled_with_the_reason(page):
    panel = page.panel
    assert panel.steps.isEnabled()
    page.panel.show_choice(RotationSpec())
    assert not panel.steps.isEnabled()
    assert "Eigenvectors" in panel.steps.toolTip()
    page.panel.show_choice(AS_RELEASED_ROTATION.model_copy(update={"per_head": True}))
    panel.weighting.setCurrentIndex(panel.weighting.findData("sensitivity"))
    panel.weighting.activated.emit(1)
    assert not panel.attention["k"].isEnabled()
    assert "Fisher" in panel.attention["k"].toolTip()
    assert RotationSpec.model_validate(page.panel.fields()) == RotationSpec(mode="per_site", weighting="sensitivity")
    page.panel.show_choice(NO_ROTATION)
    for control in (panel.weighting, panel.objective, panel.steps, panel.text):
        assert not control.isEnabled()
        assert control.toolTip()


def test_the_next_start_restores_the_form_and_what_was_shown(qtbot, page):
    page.panel.show_choice(FREE_KL_ROTATION)
    page.report.quantity.choose("refinement")
    state = json.loads(json.dumps(page.view_state()))
    again = RotationPage()
    qtbot.addWidget(again)
    with qtbot.waitSignal(again.choice_changed):
        again.restore_view(state)
    assert RotationSpec.model_validate(again.panel.fields()) == FREE_KL_ROTATION
    assert again.report.quantity.value == "refinement"
    again.restore_view({"rotation": {"mode": "sideways"}})
    assert RotationSpec.model_validate(again.panel.fields()) == FREE_KL_ROTATION


def test_auto_leaves_its_bases_to_the_measurement_and_compares_at_a_chosen_sparsity(page):
    panel = page.panel
    page.panel.show_choice(AUTO_ROTATION)
    for control in (panel.weighting, panel.matrices, panel.spectrum, panel.drop, panel.noise_bits):
        assert not control.isEnabled()
        assert "Auto" in control.toolTip()
    panel.sparsity.setValue(65)
    spec = RotationSpec.model_validate(page.panel.fields())
    assert spec == AUTO_ROTATION.model_copy(update={"sparsity": 0.65})
    panel.modes.button(2).click()
    spec = RotationSpec.model_validate(page.panel.fields())
    assert (spec.mode, spec.text) == ("global", RotationSpec().text)
