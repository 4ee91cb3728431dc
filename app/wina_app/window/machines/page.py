"""The Machines page of the settings."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QListWidget, QPlainTextEdit, QWidget

from wina_app.style.theme import GRID, monospace
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import (
    Readouts,
    beside,
    explain_disabled,
    labelled,
    push_button,
    side_by_side,
    text_label,
)
from wina_app.widgets.fields import whole_number
from wina_app.widgets.scroll_page import ScrollPage
from wina_app.window.machines.pair_table import PairTable
from wina_app.window.machines.report_view import report_figures
from wina_core.specs.machine import Machine

if TYPE_CHECKING:
    from wina_core.remote.machines.check import MachineReport

_NAME = tr("In commands, and in gpu:/models/llama.")
_DESTINATION = tr("An alias of your ~/.ssh/config, user@host, or ssh://user@host:port.")
_COMMAND = tr("The program wina there; Set up fills it in.")
_ENGINES = tr("0 is one for each GPU.")
_SET_UP = tr("Installs this program into ~/.wina-workbench there, which needs Python 3.11 or newer, and checks it")
_UNSET = tr("Deletes ~/.wina-workbench there; results, settings and models stay")
_CHECK = tr("Asks for versions, devices, memory and disks, measures the connection, and runs a job of an engine there")


class MachinesPage(QWidget):
    """List of machines, the form of one, and the outcome of its check or set-up; below them the Ray clusters."""

    selected = Signal(str)
    edited = Signal(object)
    """Fields of the form, by name."""
    remove_requested = Signal()
    work_requested = Signal(str)
    stop_requested = Signal()

    def __init__(self, clusters: QWidget) -> None:
        super().__init__()
        self.clusters = clusters
        self._ssh_config: str | None = None
        """Kept as it is: only the command line sets it."""
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Machines"))
        self.list.currentTextChanged.connect(self._on_selected)
        self.add = push_button(tr("Add"), lambda: self._select_new(), name=tr("Add a machine"))
        self.remove = push_button(
            tr("Remove"), self.remove_requested.emit, name=tr("Remove the machine"), tip=tr("Nothing there changes")
        )
        side = QWidget()
        side.setFixedWidth(GRID * 20)
        vbox(side, (self.list, 1), side_by_side(self.add, self.remove), spacing=GRID)
        content = QWidget()
        content.setProperty("role", "form")
        self._build_form(content)
        machines = hbox(None, side, (ScrollPage(content), 1), spacing=GRID * 2)
        vbox(self, (machines, 1), clusters, margins=(0, GRID * 2, 0, 0), spacing=GRID * 2)

    def _build_form(self, content: QWidget) -> None:
        self.name, self.destination, self.command = QLineEdit(), QLineEdit(), QLineEdit()
        self.engines = whole_number(0, 64, 0)
        self.engines.setKeyboardTracking(False)
        self.folders = PairTable(tr("Folders with the same files"), (tr("Folder here"), tr("Folder there")))
        self.environment = PairTable(tr("Environment variables there"), (tr("Variable"), tr("Value")))
        for line in (self.name, self.destination, self.command):
            line.editingFinished.connect(self._edit)
        self.engines.valueChanged.connect(self._edit)
        self.folders.edited.connect(self._edit)
        self.environment.edited.connect(self._edit)
        self.problem = text_label("", "problem", wrap=True)
        self.check = self._work_button(tr("Check"), "check", _CHECK)
        self.set_up = self._work_button(tr("Set up…"), "setup", _SET_UP)
        self.unset = self._work_button(tr("Remove set-up"), "unset", _UNSET)
        self.stop = push_button(tr("Stop"), self.stop_requested.emit)
        self.lines = QPlainTextEdit()
        self.lines.setReadOnly(True)
        self.lines.setFont(monospace())
        self.lines.setAccessibleName(tr("Progress"))
        self.lines.setFixedHeight(GRID * 14)
        self.report = Readouts(columns=0)
        self.outcome = text_label("", wrap=True)
        rows = [
            _row(
                (tr("Name"), self.name, _NAME, 2),
                (tr("Ssh destination"), self.destination, _DESTINATION, 5),
            ),
            _row((tr("Engines"), self.engines, _ENGINES, 2), (tr("Program"), self.command, _COMMAND, 5)),
            _row(
                (self.folders.accessibleName(), self.folders, "", 1),
                (self.environment.accessibleName(), self.environment, "", 1),
            ),
        ]
        buttons = QWidget()
        buttons.setLayout(beside(self.check, self.set_up, self.unset, self.stop))
        vbox(
            content,
            *rows,
            *(self.problem, buttons, self.lines, self.outcome, self.report),
            STRETCH,
            margins=(0, 0, GRID, 0),
            spacing=GRID,
        )

    def _work_button(self, text: str, work: str, tip: str) -> QWidget:
        return push_button(text, lambda: self.work_requested.emit(work), tip=tip)

    def fields(self) -> dict[str, object]:
        """Return the form's fields, as of `Machine`."""
        try:
            command = shlex.split(self.command.text())
        except ValueError:  # an open quote
            command = []
        return {
            "name": self.name.text().strip(),
            "destination": self.destination.text().strip(),
            "command": tuple(command),
            "folders": tuple({"here": here, "there": there} for here, there in self.folders.pairs()),
            "environment": dict(self.environment.pairs()),
            "engines": self.engines.value(),
            "ssh_config": self._ssh_config,
        }

    def show_machines(self, names: Sequence[str], selected: str) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        self.list.addItems(list(names))
        self.list.setCurrentRow(names.index(selected) if selected else -1)
        self.list.blockSignals(False)
        explain_disabled(self.remove, enabled=bool(selected), reason=tr("Select a machine"))

    def show_machine(self, machine: Machine | None) -> None:
        shown = machine or Machine.model_construct(name="", destination="")
        self._ssh_config = shown.ssh_config
        for line, text in (
            (self.name, shown.name),
            (self.destination, shown.destination),
            (self.command, shlex.join(shown.command)),
        ):
            if line.text().strip() != text:
                line.setText(text)
        self.engines.blockSignals(True)
        self.engines.setValue(shown.engines)
        self.engines.blockSignals(False)
        self.folders.show_pairs((pair.here, pair.there) for pair in shown.folders)
        self.environment.show_pairs(shown.environment.items())

    def show_problem(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def show_work(self, running: str, own: bool) -> None:
        stored = self.list.currentRow() >= 0
        busy = tr("Wait until the command on {machine} has ended, or stop it", machine=running)
        reason = busy if running else tr("Fill in the name and the destination first")
        tips = {self.check: _CHECK, self.set_up: _SET_UP, self.unset: _UNSET}
        for button, tip in tips.items():
            explain_disabled(button, enabled=stored and not running, reason=reason, explanation=tip)
        self.stop.setVisible(own)
        self.lines.setVisible(own)

    def show_lines(self, lines: Sequence[str]) -> None:
        self.lines.setPlainText("\n".join(lines))
        bar = self.lines.verticalScrollBar()
        bar.setValue(bar.maximum())

    def show_report(self, report: "MachineReport | None", text: str, failed: bool) -> None:
        self.report.show_figures([] if report is None else report_figures(report))
        self.report.setVisible(report is not None)
        self.outcome.setText(text)
        self.outcome.setProperty("role", "failed" if failed else "")
        self.outcome.style().unpolish(self.outcome)
        self.outcome.style().polish(self.outcome)
        self.outcome.setVisible(bool(text))

    def _on_selected(self, name: str) -> None:
        if name:
            self.selected.emit(name)

    def _select_new(self) -> None:
        self.selected.emit("")
        self.name.setFocus()

    def _edit(self) -> None:
        self.edited.emit(self.fields())


def _row(*fields: tuple[str, QWidget, str, int]) -> QWidget:
    """Return fields side by side, each given as label, control, hint and its share of the width."""
    row = QWidget()
    layout = hbox(row, spacing=GRID * 2)
    for text, control, hint, share in fields:
        block = labelled(text, control, hint=hint)
        block.addStretch(1)
        layout.addLayout(block, share)
    return row
