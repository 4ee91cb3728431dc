"""The heatmap widget: colours, selection and editing with real mouse and key events."""

import math

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtTest import QTest
from wina_app.heatmap import painter
from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.heatmap.geometry import HeatmapGeometry, rows_alone
from wina_app.heatmap.painter import LOCK_INSET, LOCK_WIDTH
from wina_app.plots.colour_maps import DIFFERENCE, MAGNITUDE, ColourScale, percent
from wina_app.style.theme import apply_theme, contrast, text_on, tokens

from tests.wina_app.tour import settle

ROWS, COLUMNS = [str(n) for n in range(8)], ["q", "k", "v", "o", "gate", "up", "down"]
SCALE = ColourScale("Target sparsity", "%", 0.0, 1.0, percent)


@pytest.fixture(params=["light", "dark"])
def appearance(qapp, request):
    apply_theme(qapp, request.param)
    yield request.param
    apply_theme(qapp, "light")


@pytest.fixture
def heatmap(qtbot):
    """Shown, 8 x 7, values 0.00 to 0.55."""
    widget = EditableHeatmap("test")
    qtbot.addWidget(widget)
    widget.set_table(ROWS, COLUMNS)
    widget.set_values(np.arange(56).reshape(8, 7) / 100, SCALE)
    widget.resize(640, 400)
    with qtbot.waitActive(widget):
        widget.show()
    return widget


def centre(heatmap: EditableHeatmap, row: int, column: int) -> QPoint:
    return heatmap.geometry_now().cell(row, column).center().toPoint()


def colour_at(heatmap: EditableHeatmap, row: int, column: int) -> QColor:
    """Away from text and outline."""
    cell = heatmap.geometry_now().cell(row, column)
    image = heatmap.viewport().grab().toImage()
    ratio = image.devicePixelRatio()
    return image.pixelColor(QPoint(round((cell.left() + 8) * ratio), round((cell.bottom() - 8) * ratio)))


def click(qtbot, heatmap, row, column, modifier=Qt.KeyboardModifier.NoModifier):
    qtbot.mouseClick(heatmap.viewport(), Qt.MouseButton.LeftButton, modifier, centre(heatmap, row, column))


def drag(qtbot, heatmap, first, last, modifier=Qt.KeyboardModifier.NoModifier):
    view = heatmap.viewport()
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, modifier, centre(heatmap, *first))
    qtbot.mouseMove(view, centre(heatmap, *last))
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, modifier, centre(heatmap, *last))


@pytest.mark.usefixtures("appearance")
def test_a_cell_has_its_values_colour(heatmap):
    for row, column in ((0, 0), (3, 4), (7, 6)):
        assert colour_at(heatmap, row, column).rgb() == SCALE.colour((7 * row + column) / 100).rgb()


@pytest.mark.usefixtures("appearance")
def test_no_data_is_hatched(heatmap):
    values = np.full((8, 7), 0.5)
    values[1, 1] = math.nan
    heatmap.set_values(values, SCALE)
    area = heatmap.geometry_now().cell(1, 1).toAlignedRect().adjusted(2, 2, -2, -2)
    image = heatmap.viewport().grab(area).toImage()
    seen = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert tokens().raised in seen
    assert len(seen) > 1
    assert SCALE.colour(0.5).name() not in seen


@pytest.mark.parametrize("name", [MAGNITUDE, DIFFERENCE])
def test_values_are_readable_on_every_colour(name):
    scale = ColourScale("", "", 0.0, 1.0, percent, name)
    colours = [scale.colour(step / 255) for step in range(256)]
    assert min(contrast(text_on(colour), colour) for colour in colours) >= 4.5


def test_control_goes_to_the_edge_and_space_takes_rows_and_columns(qtbot, heatmap):
    control, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    click(qtbot, heatmap, 2, 2)
    qtbot.keyClick(heatmap, Qt.Key.Key_Down, control)
    assert heatmap.selection.cells == {(7, 2)}
    qtbot.keyClick(heatmap, Qt.Key.Key_Right, control | shift)
    assert heatmap.selection.cells == {(7, column) for column in range(2, 7)}
    qtbot.keyClick(heatmap, Qt.Key.Key_Home, control)
    assert heatmap.selection.cells == {(0, 0)}
    qtbot.keyClick(heatmap, Qt.Key.Key_Space, control)
    assert heatmap.selection.cells == {(row, 0) for row in range(8)}
    click(qtbot, heatmap, 2, 2)
    qtbot.keyClick(heatmap, Qt.Key.Key_Space, shift)
    assert heatmap.selection.cells == {(2, column) for column in range(7)}
    qtbot.keyClick(heatmap, Qt.Key.Key_Escape)
    assert heatmap.selection.cells == frozenset()


def test_typing_is_committed_by_enter_and_by_moving_on(qtbot, heatmap):
    texts = []
    heatmap.text_entered.connect(texts.append)
    click(qtbot, heatmap, 2, 2)
    qtbot.keyClicks(heatmap, "62.5")
    assert texts == []
    qtbot.keyClick(heatmap, Qt.Key.Key_Return)
    qtbot.keyClicks(heatmap, "70")
    qtbot.keyClick(heatmap, Qt.Key.Key_Down)
    assert texts == ["62.5", "70"]
    qtbot.keyClicks(heatmap, "99")
    qtbot.keyClick(heatmap, Qt.Key.Key_Backspace)
    qtbot.keyClick(heatmap, Qt.Key.Key_Escape)
    qtbot.keyClick(heatmap, Qt.Key.Key_Return)
    assert texts == ["62.5", "70"], "Escape takes back what was typed"


def test_keys_step_clear_and_lock_the_selection(qtbot, heatmap):
    said = []
    heatmap.stepped.connect(said.append)
    heatmap.cleared.connect(lambda: said.append("cleared"))
    heatmap.lock_toggled.connect(lambda: said.append("lock"))
    qtbot.keyClicks(heatmap, "l+")
    qtbot.keyClick(heatmap, Qt.Key.Key_Delete)
    assert said == [], "nothing is selected"
    click(qtbot, heatmap, 2, 2)
    qtbot.keyClicks(heatmap, "+-L")
    qtbot.keyClick(heatmap, Qt.Key.Key_Minus, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(heatmap, Qt.Key.Key_Delete)
    assert said == [5, -5, "lock", -1, "cleared"]


def test_the_brush_paints_all_cells_on_its_way_in_one_stroke(qtbot, heatmap):
    heatmap.brush = True
    events = []
    heatmap.stroke_began.connect(lambda: events.append("began"))
    heatmap.painted.connect(events.append)
    heatmap.stroke_ended.connect(lambda: events.append("ended"))
    drag(qtbot, heatmap, (1, 1), (4, 1))
    assert (events[0], events[-1]) == ("began", "ended")
    assert frozenset().union(*events[1:-1]) == {(row, 1) for row in range(1, 5)}
    assert heatmap.selection.cells == frozenset()
    events.clear()
    drag(qtbot, heatmap, (1, 1), (2, 3), Qt.KeyboardModifier.ShiftModifier)
    assert heatmap.selection.cells == {(row, column) for row in (1, 2) for column in (1, 2, 3)}
    assert events == []


@pytest.mark.usefixtures("appearance")
def test_a_lock_is_seen_on_every_colour(heatmap):
    shown = (0.0, 0.5, 0.95, math.nan)
    heatmap.set_values(np.tile(np.array([*shown, 0, 0, 0]), (8, 1)), SCALE)
    heatmap.set_locked(frozenset((1, column) for column in range(4)))
    image = heatmap.viewport().grab().toImage()
    for column, value in enumerate(shown):
        cell = heatmap.geometry_now().cell(1, column)
        body = QPointF(cell.right() - LOCK_INSET - LOCK_WIDTH / 2, cell.center().y() + 1) * image.devicePixelRatio()
        background = tokens().raised if math.isnan(value) else SCALE.colour(value)
        assert contrast(image.pixelColor(body.toPoint()), QColor(background)) >= 4.5, value


@pytest.mark.parametrize("changed", [[(0, 0), (7, 6)], [(row, 2) for row in range(8)]])
def test_only_changed_cells_are_painted_again(qtbot, heatmap, monkeypatch, changed):
    painted = []
    real = painter._tile
    monkeypatch.setattr(painter, "_tile", lambda type_, text, *given: painted.append(text) or real(type_, text, *given))
    values = np.arange(56).reshape(8, 7) / 100
    settle()
    painted.clear()
    for cell in changed:
        values[cell] += 0.3
    heatmap.set_values(values, SCALE)
    qtbot.waitUntil(lambda: bool(painted))
    assert sorted(painted) == sorted(SCALE.text(values[cell]) for cell in changed)
    assert colour_at(heatmap, *changed[0]).rgb() == SCALE.colour(values[changed[0]]).rgb()


def test_eighty_layers_scroll_to_the_cursor(heatmap):
    heatmap.set_table([str(n) for n in range(80)], COLUMNS)
    heatmap.set_values(np.full((80, 7), 0.5), SCALE)
    assert heatmap.verticalScrollBar().maximum() > 0
    heatmap.set_selection(heatmap.selection.click((79, 0)))
    cell = heatmap.geometry_now().cell(79, 0)
    assert cell.bottom() <= heatmap.viewport().height()
    assert cell.height() >= heatmap.fontMetrics().height(), "values stay readable"


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 2.0])
def test_cells_lie_on_device_pixels_and_never_overlap(ratio):
    geometry = HeatmapGeometry(rows_alone(30), 7, 40, 20, 61.7, 17.3, dy=13, ratio=ratio)
    for column in range(6):
        left, right = geometry.cell(2, column), geometry.cell(2, column + 1)
        assert (left.left() * ratio) == pytest.approx(round(left.left() * ratio))
        assert left.right() < right.left()
    for cell in ((0, 0), (12, 3), (29, 6)):
        assert geometry.nearest(geometry.cell(*cell).center()) == cell


def test_the_selection_is_copied_with_and_without_headings(qtbot, heatmap):
    heatmap.set_selection(heatmap.selection.click((1, 1)).drag_to((2, 2)))
    heatmap.setFocus()
    qtbot.waitUntil(heatmap.hasFocus)
    qtbot.keyClick(heatmap, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "8%\t9%\n15%\t16%"
    qtbot.keyClick(heatmap, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert QGuiApplication.clipboard().text() == "layer\tk\tv\n1\t8%\t9%\n2\t15%\t16%"


def test_cut_and_paste_are_asked_for_with_the_clipboards_text(qtbot, heatmap):
    said = []
    heatmap.cut.connect(lambda: said.append("cut"))
    heatmap.pasted.connect(said.append)
    click(qtbot, heatmap, 1, 1)
    heatmap.setFocus()
    qtbot.waitUntil(heatmap.hasFocus)
    qtbot.keyClick(heatmap, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(heatmap, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert said == ["cut", "8%"]


def test_screen_readers_hear_the_cursors_cell_and_its_lock(qtbot, heatmap):
    click(qtbot, heatmap, 5, 6)
    assert heatmap.accessibleDescription() == "layer 5, down: Target sparsity 41 %"
    heatmap.set_locked(frozenset({(5, 6)}))
    assert heatmap.accessibleDescription() == "layer 5, down: Target sparsity 41 %; locked"


def test_ctrl_with_a_digit_or_a_letter_is_the_windows_also_while_typing(qtbot, heatmap):
    """As it comes from a window system: an offer of the key to shortcuts first, with the digit as its text."""
    done, typed = [], []
    for keys in ("Ctrl+1", "Ctrl+8", "Ctrl+L"):
        QShortcut(QKeySequence(keys), heatmap, lambda keys=keys: done.append(keys))
    heatmap.text_entered.connect(typed.append)
    heatmap.lock_toggled.connect(lambda: typed.append("lock"))
    click(qtbot, heatmap, 2, 3)
    qtbot.keyClick(heatmap, Qt.Key.Key_4)
    for key, keys in ((Qt.Key.Key_1, "Ctrl+1"), (Qt.Key.Key_8, "Ctrl+8"), (Qt.Key.Key_L, "Ctrl+L")):
        QTest.keyClick(heatmap.window().windowHandle(), key, Qt.KeyboardModifier.ControlModifier)
        assert done[-1:] == [keys]
    qtbot.keyClick(heatmap, Qt.Key.Key_2)
    qtbot.keyClick(heatmap, Qt.Key.Key_Return)
    assert typed == ["42"]
