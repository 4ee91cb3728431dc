"""The settings dialog: values that are refused, and settings without effect."""

from PySide6.QtCore import Qt
from wina_app.services.settings import Preferences
from wina_app.window.settings_dialog import SettingsDialog


def test_a_text_that_is_no_size_of_memory_is_not_taken_and_says_why(qtbot):
    dialog = SettingsDialog(None, Preferences(memory="8GB"))
    qtbot.addWidget(dialog)
    heard, field, note = [], dialog.controls["memory"], dialog._notes["memory"]
    dialog.changed.connect(heard.append)
    described = note.text()
    for typed in ("eight", "-1GB", "0"):
        field.setText(typed)
        field.editingFinished.emit()
        assert note.text() == f'"{typed}" is no size of memory; give a number and a unit, such as 8GB.'
    assert heard == []
    field.setText("7.5GiB")
    field.editingFinished.emit()
    assert (note.text(), heard[-1].memory) == (described, "7.5GiB")


def test_a_refused_value_says_why_and_keeps_the_dialog_open(qtbot):
    dialog = SettingsDialog(None, Preferences(memory="8GB"))
    qtbot.addWidget(dialog)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, on=False)
    dialog.show()
    memory, engines = dialog.controls["memory"], dialog.controls["engines"]
    memory.setText("eight")
    memory.editingFinished.emit()
    dialog.accept()
    assert dialog.isVisible(), "the text is not dropped"
    assert dialog.focusWidget() is memory
    dialog.reject()
    assert (memory.text(), dialog.isVisible()) == ("8GB", True), "Esc restores it first"
    engines.setMaximum(1000)
    engines.setValue(1000)
    assert dialog._notes["engines"].text() == "Input should be less than or equal to 64"
    engines.setValue(2)
    dialog.reject()
    assert not dialog.isVisible()


def test_a_setting_without_effect_says_why_and_cannot_be_changed(qtbot):
    dialog = SettingsDialog(None, Preferences(), {"memory": "WINA_MEMORY is 4GB."})
    qtbot.addWidget(dialog)
    assert not dialog.controls["memory"].isEnabled()
    assert dialog._notes["memory"].text() == "WINA_MEMORY is 4GB."
    assert dialog.controls["database"].isEnabled()
