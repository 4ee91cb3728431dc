"""Rows of the heatmap that are expanded: their lines, the reading cursor on them, and what edits never reach."""

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication
from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.heatmap.geometry import TRIANGLE_WIDTH, Detail, Lines, RowDetails
from wina_app.plots.colour_maps import ColourScale, percent

from wina_core.report.drawing import MapPanel

COLUMNS = ("q", "gate", "up", "down")
EXPERTS = (0, 3, 3, 0)
SCALE = ColourScale("Measured sparsity", "%", 0.0, 1.0, percent)
READ = frozenset({1, 2, 3})


def details(row: int) -> RowDetails:
    values = np.arange(12).reshape(3, 4) / 20 + row / 100
    return RowDetails(tuple(f"expert {number}" for number in range(3)), values, READ, tip="share of tokens")


@pytest.fixture
def heatmap(qtbot):
    widget = EditableHeatmap("test")
    qtbot.addWidget(widget)
    widget.set_table([str(row) for row in range(4)], COLUMNS)
    widget.set_values(np.full((4, 4), 0.9), SCALE)
    widget.set_details(EXPERTS, details, "expert 9")
    widget.detail_text = lambda place: f"expert {place.line} of layer {place.row}"
    widget.resize(640, 400)
    with qtbot.waitActive(widget):
        widget.show()
    return widget


def press(qtbot, heatmap, *keys):
    for key in keys:
        qtbot.keyClick(heatmap, key)


def click(qtbot, heatmap, point: QPointF) -> None:
    qtbot.mouseClick(heatmap.viewport(), Qt.MouseButton.LeftButton, pos=point.toPoint())


def triangle(heatmap, row: int) -> QPointF:
    return QPointF(TRIANGLE_WIDTH / 2, heatmap.geometry_now().row_header(row).center().y())


@pytest.mark.parametrize("counts", [(), (0, 0), (2, 0, 3), (0, 1), (1,)])
def test_every_line_belongs_to_one_row_or_detail_and_outside_ones_to_rows_beyond(counts):
    lines = Lines(counts)
    places = [(row, detail) for row, count in enumerate(counts) for detail in range(-1, count)]
    assert [lines.row_at(line) for line in range(lines.count)] == places
    assert [lines.line_of(*place) for place in places] == list(range(lines.count))
    assert lines.row_at(-2) == (-2, -1)
    assert lines.row_at(lines.count + 1) == (len(counts) + 1, -1)
    assert lines.line_of(len(counts)) == lines.count


def test_details_are_folded_until_their_triangle_is_clicked(qtbot, heatmap):
    geometry = heatmap.geometry_now()
    assert (geometry.lines.count, heatmap.expanded) == (4, frozenset())
    with qtbot.waitSignal(heatmap.expanded_changed):
        click(qtbot, heatmap, triangle(heatmap, 1))
    assert heatmap.expanded == {1}
    assert heatmap.geometry_now().lines.count == 7
    assert heatmap.selection.cells == frozenset()
    click(qtbot, heatmap, triangle(heatmap, 1))
    assert heatmap.expanded == frozenset()
    click(qtbot, heatmap, triangle(heatmap, 0))
    assert heatmap.expanded == frozenset(), "the row has none, so its heading selects it"
    assert {row for row, _ in heatmap.selection.cells} == {0}


def test_a_detail_is_painted_in_its_values_colour_and_a_column_without_details_stays_blank(heatmap):
    heatmap.expand({2})
    image = heatmap.viewport().grab().toImage()
    ratio = image.devicePixelRatio()

    def colour(column: int) -> str:
        area = heatmap.geometry_now().detail(Detail(2, 1, column))
        return image.pixelColor(QPoint(round((area.left() + 4) * ratio), round((area.bottom() - 4) * ratio))).name()

    assert colour(2) == SCALE.colour(float(details(2).values[1, 2])).name()
    surface = image.pixelColor(QPoint(round(2 * ratio), round((heatmap.viewport().height() - 2) * ratio))).name()
    assert colour(0) == surface


def test_e_shows_and_hides_the_details_of_the_selected_rows_or_of_all(qtbot, heatmap):
    heatmap.set_selection(heatmap.selection.click((1, 1)))
    press(qtbot, heatmap, Qt.Key.Key_E)
    assert heatmap.expanded == {1}
    press(qtbot, heatmap, Qt.Key.Key_E)
    assert heatmap.expanded == frozenset()
    heatmap.set_selection(heatmap.selection.none())
    press(qtbot, heatmap, Qt.Key.Key_E)
    assert heatmap.expanded == {1, 2}


def test_arrows_read_the_details_on_their_way_and_come_back_to_cells(qtbot, heatmap):
    heatmap.expand({1})
    heatmap.set_selection(heatmap.selection.click((1, 2)))
    press(qtbot, heatmap, Qt.Key.Key_Down, Qt.Key.Key_Down)
    assert heatmap.reading == Detail(1, 1, 2)
    assert heatmap.selection.cells == frozenset()
    assert heatmap.accessibleDescription() == "expert 1 of layer 1"
    press(qtbot, heatmap, Qt.Key.Key_Left, Qt.Key.Key_Left)
    assert heatmap.reading == Detail(1, 1, 1), "q has no details"
    press(qtbot, heatmap, Qt.Key.Key_Down, Qt.Key.Key_Down)
    assert (heatmap.reading, heatmap.selection.cells) == (None, {(2, 1)})
    press(qtbot, heatmap, Qt.Key.Key_Up)
    assert heatmap.reading == Detail(1, 2, 1)
    press(qtbot, heatmap, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Up)
    assert (heatmap.reading, heatmap.selection.cells) == (None, {(1, 1)})
    press(qtbot, heatmap, Qt.Key.Key_Left, Qt.Key.Key_Down)
    assert heatmap.selection.cells == {(2, 0)}, "a column without details has none on the way"
    press(qtbot, heatmap, Qt.Key.Key_Up)
    assert (heatmap.reading, heatmap.selection.cells) == (None, {(1, 0)})
    heatmap.read(Detail(1, 2, 3))
    press(qtbot, heatmap, Qt.Key.Key_E)
    assert (heatmap.reading, heatmap.selection.cells, heatmap.expanded) == (None, {(1, 3)}, frozenset()), "hidden"


def test_details_are_read_and_never_edited(qtbot, heatmap):
    heatmap.expand({1})
    edits = []
    for signal in (heatmap.text_entered, heatmap.stepped, heatmap.painted, heatmap.pasted):
        signal.connect(edits.append)
    for signal in (heatmap.cleared, heatmap.lock_toggled, heatmap.cut):
        signal.connect(lambda: edits.append("edit"))
    point = heatmap.geometry_now().detail(Detail(1, 2, 3)).center()
    click(qtbot, heatmap, point)
    assert heatmap.reading == Detail(1, 2, 3)
    press(qtbot, heatmap, Qt.Key.Key_5, Qt.Key.Key_Return, Qt.Key.Key_Plus, Qt.Key.Key_Delete, Qt.Key.Key_L)
    heatmap.brush = True
    click(qtbot, heatmap, point)
    assert edits == []
    press(qtbot, heatmap, Qt.Key.Key_Escape)
    assert heatmap.reading is None


def test_the_figure_has_the_lines_that_are_shown(heatmap):
    (folded,) = heatmap.figure()
    heatmap.expand({1})
    (shown,) = heatmap.figure()
    assert isinstance(folded, MapPanel)
    assert isinstance(shown, MapPanel)
    assert (len(folded.rows), shown.rows[1:5]) == (4, ("1", "expert 0", "expert 1", "expert 2"))
    assert shown.values[2] == pytest.approx([100 * value for value in details(1).values[0]])


def test_only_details_in_view_are_made(heatmap):
    rows, made = 40, []

    def make(row: int) -> RowDetails:
        made.append(row)
        return details(row)

    heatmap.set_table([str(row) for row in range(rows)], COLUMNS)
    heatmap.set_values(np.full((rows, 4), 0.9), SCALE)
    heatmap.set_details((3,) * rows, make, "expert 9")
    heatmap.expand(range(rows))
    heatmap.verticalScrollBar().setValue(0)
    made.clear()
    heatmap.set_details((3,) * rows, make, "expert 9")
    heatmap.viewport().repaint()
    assert made
    assert max(made) < rows // 2
    assert heatmap.expanded == frozenset(range(rows))


def test_tooltips_are_those_of_a_details_cell_or_heading(heatmap, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "wina_app.heatmap.editable_heatmap.QToolTip.showText", lambda *given: shown.append((given[1], given[3]))
    )
    heatmap.expand({1})
    geometry = heatmap.geometry_now()
    heading, cell = geometry.row_header(1, 2), geometry.detail(Detail(1, 2, 1))
    for area in (heading, cell, geometry.detail(Detail(1, 2, 0)), geometry.row_header(1)):
        point = area.center().toPoint()
        QApplication.sendEvent(heatmap.viewport(), QHelpEvent(QEvent.Type.ToolTip, point, point))
    assert shown == [("share of tokens", heading.toAlignedRect()), ("expert 2 of layer 1", cell.toAlignedRect())]
