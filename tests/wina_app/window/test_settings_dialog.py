"""The settings dialog: values that are refused, and settings without effect."""

from PySide6.QtCore import Qt
from wina_app.services.settings import Preferences
from wina_app.window.settings_dialog import SettingsDialog


def test_a_refused_value_says_why_and_keeps_the_dialog_open(qtbot):
    dialog = SettingsDialog(None, Preferences(memory="8GB"), {"database": "WINA_DATABASE is set."})
    qtbot.addWidget(dialog)
    assert not dialog.controls["database"].isEnabled()
    assert dialog._notes["database"].text() == "WINA_DATABASE is set."
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, on=False)
    dialog.show()
    memory, engines = dialog.controls["memory"], dialog.controls["engines"]
    heard = []
    dialog.changed.connect(heard.append)
    for typed in ("-1GB", "0", "eight"):
        memory.setText(typed)
        memory.editingFinished.emit()
        assert dialog._notes["memory"].text().startswith(f'"{typed}" is no size of memory; give a number and a unit')
    assert heard == []
    dialog.accept()
    assert dialog.isVisible(), "the text is not dropped"
    assert dialog.focusWidget() is memory
    dialog.reject()
    assert (memory.text(), dialog.isVisible()) == ("8GB", True), "Esc restores it first"
    engines.setMaximum(1000)
    engines.setValue(1000)
    assert dialog._notes["engines"].text() == "Input should be less than or equal to 64"
    engines.setValue(2)
    memory.setText("7.5GiB")
    memory.editingFinished.emit()
    assert (heard[-1].memory, heard[-1].engines) == ("7.5GiB", 2)
    dialog.reject()
    assert not dialog.isVisible()
