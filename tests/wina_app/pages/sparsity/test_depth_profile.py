"""Dragging the lines of the profile over depth, with real mouse events."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from wina_app.pages.sparsity.depth_profile import SparsityProfile
from wina_app.plots.colour_maps import ColourScale, percent

NAMES = ("q", "k", "v", "o", "gate", "up", "down")
SCALE = ColourScale("Target sparsity", "%", 0.0, 1.0, percent)
LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def profile(qtbot, qapp):  # noqa: ARG001 - plots need an application
    """Shown; seven lines over eight layers, 10 points apart."""
    widget = SparsityProfile()
    qtbot.addWidget(widget)
    widget.resize(480, 480)
    with qtbot.waitExposed(widget):
        widget.show()
    widget.show_table(NAMES, np.tile(np.arange(1, 8) / 10, (8, 1)), SCALE)
    widget.editable = True
    return widget


@pytest.fixture
def said(profile):
    """What the profile asked for."""
    found = []
    profile.drag_began.connect(lambda: found.append("began"))
    profile.dragged.connect(lambda cells, points: found.append((cells, points)))
    profile.drag_ended.connect(lambda: found.append("ended"))
    return found


def place(profile: SparsityProfile, layer: float, height: float) -> QPoint:
    return profile.mapFromScene(profile.getPlotItem().vb.mapViewToScene(QPointF(layer, height)))


def drag(qtbot, profile, start, end, modifier=NONE):
    view = profile.viewport()
    qtbot.mousePress(view, LEFT, modifier, start)
    qtbot.mouseMove(view, end)
    qtbot.mouseRelease(view, LEFT, modifier, end)


def pixels(profile: SparsityProfile) -> float:
    """Percentage points of one pixel."""
    return profile.getPlotItem().vb.viewPixelSize()[1]


def test_a_point_is_dragged_by_itself(qtbot, profile, said):
    drag(qtbot, profile, place(profile, 3, 50), place(profile, 3, 70))
    assert (said[0], said[-1]) == ("began", "ended")
    cells, points = said[-2]
    assert cells == {(3, 4)}
    assert points == pytest.approx(20, abs=2 * pixels(profile))


def test_with_shift_the_whole_line_is_dragged(qtbot, profile, said):
    drag(qtbot, profile, place(profile, 3, 50), place(profile, 3, 42), SHIFT)
    cells, points = said[-2]
    assert cells == {(layer, 4) for layer in range(8)}
    assert points == pytest.approx(-8, abs=2 * pixels(profile))


def test_columns_without_data_do_not_shift_the_others(qtbot, profile, said):
    values = np.tile(np.arange(1, 8) / 10, (8, 1))
    values[:, 1] = np.nan
    profile.show_table(NAMES, values, SCALE)
    drag(qtbot, profile, place(profile, 2, 40), place(profile, 2, 60))
    assert said[-2][0] == {(2, 3)}


def test_a_plan_is_shown_on_the_whole_scale_and_a_zoom_by_hand_is_kept(profile):
    box = profile.getPlotItem().vb
    assert box.viewRange()[1] == pytest.approx([0.0, 100.0], abs=5)
    profile.getPlotItem().setYRange(40.0, 60.0, padding=0)
    profile.show_table(NAMES, np.full((8, 7), 0.51), SCALE)
    assert box.viewRange()[1] == pytest.approx([40.0, 60.0])
