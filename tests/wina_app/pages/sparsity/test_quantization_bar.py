"""The line with the quantizer's settings, and what the toolbar offers of it."""

import pytest

from tests.wina_app.pages.sparsity.sparsity_pages import open_page
from tests.wina_app.stored_runs import SOURCE, summary
from wina_core.specs import QuantizationSpec

REFUSED = "no package with absent"


@pytest.fixture
def page(qtbot, qapp, store):
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, summary())
    page.toolbar.map_chosen.emit("bits")
    return page


def choose(page, quantizer):
    box = page.quantization.quantizer
    box.setCurrentIndex(box.findData(quantizer))


def offered(page):
    actions = page.toolbar.presets.menu().actions()
    return [each.text() for each in actions if each.isVisible() and "bits" in each.text() and not each.isSeparator()]


def test_planes_have_bits_of_their_own_no_group_and_about_so_many_bits_read(page):
    bar = page.quantization
    assert bar.group.isEnabled()
    assert offered(page)[1:] == ["8 bits", "6 bits", "4 bits", "3 bits", "2 bits"]
    choose(page, "planes")
    assert not bar.group.isEnabled()
    assert bar.group.toolTip() == "Planes have no groups: each input has one scale"
    assert "the highest first" in bar.quantizer.toolTip()
    assert "1 to 6 planes" in bar.by_energy.toolTip()
    assert offered(page) == [
        "16 bits: not quantized", "12 bits", "10 bits", "8 bits", "6 bits", "4 bits", "2 bits"
    ]  # fmt: skip
    page.toolbar.bits_chosen.emit(10)
    assert page.workspace.quantization == QuantizationSpec(quantizer="planes", bits=10)
    assert bar.state.whole().startswith("10 bits planes: 10")
    assert ", about " in bar.state.whole()
    choose(page, "hqq")
    assert bar.group.isEnabled()
    assert "one scale and zero" in bar.group.toolTip()
    assert "runs of equal bits" in bar.by_energy.toolTip()


def test_a_quantizer_that_is_not_installed_is_shown_and_cannot_be_chosen(page):
    bar = page.quantization
    assert bar.quantizer.findData("absent") == -1
    page.workspace.set_quantization(QuantizationSpec(quantizer="absent", bits=8))
    assert bar.quantizer.currentIndex() == -1
    assert bar.quantizer.placeholderText() == "absent"
    assert (bar.quantizer.toolTip(), bar.state.whole()) == (REFUSED, REFUSED)
    assert page.figures.isVisible()
    choose(page, "planes")
    assert page.workspace.quantization == QuantizationSpec(quantizer="planes", bits=8)
    assert bar.state.whole() != REFUSED


def test_a_joint_allocation_begins_with_planes_where_nothing_is_quantized_and_can_be_refined(page):
    allocator, joint = page.toolbar.allocator, page.toolbar.joint

    def choose_allocator(name):
        allocator.setCurrentText(name)
        allocator.activated.emit(allocator.currentIndex())

    assert joint.held.text() == "any"
    choose_allocator("Joint")
    assert page.quantization.quantizer.currentText() == "Planes"
    assert page.quantization.by_energy.isChecked()
    assert page.workspace.quantization == "none", "no bits are chosen yet"
    assert joint.held.text() == "8 bits"
    assert "planes need it" in joint.read.toolTip()
    joint.refined.setChecked(True)
    assert joint.budget.refined
    choose_allocator("Curves")
    choose(page, "hqq")
    page.toolbar.bits_chosen.emit(4)
    choose_allocator("Joint")
    assert page.quantization.quantizer.currentText() == "HQQ", "a quantizer in use stays"
    assert not joint.budget.refined
    assert not joint.refined.isVisible()
