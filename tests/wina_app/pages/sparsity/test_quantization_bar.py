"""The line with the quantizer's settings, and what the toolbar offers of it."""

import pytest

from tests.wina_app.pages.sparsity.sparsity_pages import open_page
from tests.wina_app.stored_runs import SOURCE, summary


@pytest.fixture
def page(qtbot, qapp, store):
    page = open_page(qtbot, qapp, store)
    page.workspace.set_model(SOURCE, summary())
    page.toolbar.map_chosen.emit("bits")
    return page


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
    page.quantization.quantizer.setCurrentIndex(page.quantization.quantizer.findData("hqq"))
    page.toolbar.bits_chosen.emit(4)
    choose_allocator("Joint")
    assert page.quantization.quantizer.currentText() == "HQQ", "a quantizer in use stays"
    assert not joint.budget.refined
    assert not joint.refined.isVisible()
