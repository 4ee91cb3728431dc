"""The choice of the machines and clusters that run new jobs, in the Run menu and in the status line."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget

from wina_app.jobs.texts import machines_text
from wina_app.services.machines import Machines
from wina_app.style.translation import tr
from wina_app.window.menus import Menus
from wina_app.window.status_line import StatusLine
from wina_core.specs.machine import LOCAL, Machine


class _StayingMenu(QMenu):
    """Menu that stays open while its check boxes are clicked."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        action = self.actionAt(event.position().toPoint())
        if action is not None and action.isCheckable() and action.isEnabled():
            action.trigger()
        else:
            super().mouseReleaseEvent(event)


class RunOn(QObject):
    """One menu with a check box for this computer, each machine and each Ray cluster."""

    def __init__(
        self, machines: Machines, menus: Menus, line: StatusLine, open_machines: Callable[[], object], parent: QWidget
    ) -> None:
        """Add the choice to the status line and the Run menu; `open_machines` opens the page of machines."""
        super().__init__(parent)
        self._machines, self._line, self._open = machines, line, open_machines
        self.menu = _StayingMenu(parent)
        self.menu.setAccessibleName(tr("Run on"))
        self.menu.setToolTipsVisible(True)
        self._boxes: dict[str, QAction] = {}
        menus.add(menus.run, tr("Run &on…"), self.choose, "Ctrl+Alt+W", tr("Choose the machines that run new jobs"))
        line.run_on.setMenu(self.menu)
        machines.changed.connect(self._show)
        self._show()

    def choose(self) -> None:
        """Open the choice, or the page of machines where there is none."""
        if self._machines.entries:
            self._line.run_on.showMenu()
        else:
            self._open()

    def _show(self) -> None:
        entries, chosen = self._machines.entries, self._machines.chosen or (LOCAL,)
        if list(self._boxes) != [LOCAL, *entries]:
            self._fill()
        for name, box in self._boxes.items():
            box.setChecked(name in chosen)
        for name, entry in entries.items():
            tip = entry.host if isinstance(entry, Machine) else f"Ray {entry.address}"
            self._boxes[name].setToolTip(tip)
        self._line.show_run_on(machines_text(chosen) if entries else "")

    def _fill(self) -> None:
        self.menu.clear()
        self._boxes = {LOCAL: self._box(LOCAL, tr("This computer"))}
        self._boxes[LOCAL].setToolTip(tr("The engines of this computer"))
        self._boxes |= {name: self._box(name, name) for name in self._machines.entries}
        self.menu.addSeparator()
        self.menu.addAction(tr("Machines…"), self._open)

    def _box(self, name: str, text: str) -> QAction:
        box = self.menu.addAction(text)
        box.setCheckable(True)
        box.triggered.connect(lambda on: self._toggle(name, on))
        return box

    def _toggle(self, name: str, on: bool) -> None:
        chosen = self._machines.chosen or (LOCAL,)
        self._machines.choose([*chosen, name] if on else [other for other in chosen if other != name])
        self._show()  # one box stays checked
