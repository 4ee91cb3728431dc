"""Drop-down lists show all of their entries when there is room."""

import pytest
from PySide6.QtWidgets import QComboBox, QWidget
from wina_app.style.theme import apply_stylesheet, apply_theme
from wina_app.widgets.combo_box import ComboBox


@pytest.fixture
def back(qapp):
    yield
    qapp.setStyle("Fusion")
    apply_theme(qapp, "light", 1.0)


@pytest.mark.usefixtures("back")
@pytest.mark.parametrize(
    ("style", "scale", "entries", "separators", "kind"),
    [
        ("Fusion", 1.0, 2, 0, QComboBox),
        ("Fusion", 1.5, 24, 0, QComboBox),
        ("Windows", 1.0, 24, 0, lambda: ComboBox("preset")),
        ("Fusion", 1.0, 10, 2, lambda: ComboBox("preset")),
        ("Windows", 1.5, 10, 2, QComboBox),
        ("Fusion", 1.5, 24, 0, lambda: ComboBox("preset")),
    ],
)
def test_every_entry_is_visible(qtbot, qapp, style, scale, entries, separators, kind):
    apply_theme(qapp, "light", scale)
    qapp.setStyle(style)
    window = QWidget()
    qtbot.addWidget(window)
    apply_stylesheet(window)
    window.resize(600, 200)
    box = kind()
    box.setParent(window)
    for number in range(entries):
        box.addItem(f"preset {number}")
    for number in range(separators):
        box.insertSeparator(1 + 3 * number)
    window.show()
    box.showPopup()
    qapp.processEvents()
    view = box.view()
    seen = view.viewport().rect()
    assert all(seen.contains(view.visualRect(box.model().index(row, 0))) for row in range(box.count()))
    assert view.window().screen().availableGeometry().contains(view.window().geometry())
    box.hidePopup()
