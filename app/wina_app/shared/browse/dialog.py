"""Dialog that shows the folders and GGUF files of a machine, to open a model or to name a new folder."""

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from wina_app.services.folder_browser import FolderBrowser
from wina_app.style.icons import icon
from wina_app.style.number_format import size
from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import captioned, push_button, text_label
from wina_app.widgets.fields import choices
from wina_core.errors import printable
from wina_core.remote.machines.messages import FolderListing
from wina_core.specs.machine import Machine, join_location

_HUB = tr(
    "To use a Hugging Face model there, choose the machine under Run on and type the id on the Model page: it is "
    "downloaded on the machine."
)
_NAME, _IS_MODEL = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1

MakeBrowser = Callable[[Machine], FolderBrowser]


class BrowseDialog(QDialog):
    """One folder at a time: its folders and GGUF files, models with their size."""

    chosen = Signal(str)
    """NAME:/path."""

    def __init__(
        self,
        parent: QWidget,
        title: str,
        machines: Mapping[str, Machine],
        new_name: str | None = None,
        make_browser: MakeBrowser = FolderBrowser,
    ) -> None:
        """Show the first machine's home folder. With `new_name` a new folder of this name is chosen, else a model."""
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(scaled(GRID * 80), scaled(GRID * 66))
        self._machines, self._make = machines, make_browser
        self._browser: FolderBrowser | None = None
        self._listing: FolderListing | None = None
        self.machine = choices(name=tr("Machine"))
        self.machine.addItems(list(machines))
        self.machine.currentTextChanged.connect(self._connect)
        self.path = QLineEdit()
        self.path.setAccessibleName(tr("Folder"))
        self.path.returnPressed.connect(lambda: self._ask(self.path.text().strip() or "~"))
        self.up = push_button(tr("Up"), self._go_up, tip=tr("Show the folder that contains this one"))
        self.up.setAutoDefault(False)
        self.folders = QTreeWidget()
        self.folders.setHeaderLabels([tr("Name"), tr("Model size")])
        self.folders.setRootIsDecorated(False)
        self.folders.setUniformRowHeights(True)
        self.folders.setAccessibleName(tr("Folders"))
        self.folders.header().setStretchLastSection(False)
        self.folders.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.folders.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.folders.itemActivated.connect(self._activate)
        self.folders.currentItemChanged.connect(self._update)
        self.state = text_label("", "muted", wrap=True)
        self.name = QLineEdit(new_name or "")
        self.name.setAccessibleName(tr("Name of the new folder"))
        self.name.textChanged.connect(self._update)
        self._makes_new = new_name is not None
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        text = tr("Save here") if self._makes_new else tr("Open")
        self.accept_button = buttons.addButton(text, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        place, below = QWidget(), QWidget()
        hbox(place, self.machine, (self.path, 1), self.up)
        hbox(below, (captioned(tr("New folder"), self.name), 1))
        below.setVisible(self._makes_new)
        hub = text_label(_HUB, "muted", wrap=True)
        hub.setVisible(not self._makes_new)
        margins = (GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        vbox(self, place, (self.folders, 1), self.state, below, hub, buttons, margins=margins, spacing=GRID)
        self.finished.connect(self._leave)
        self._connect(self.machine.currentText())

    def _connect(self, name: str) -> None:
        self._leave()
        machine = self._machines[name]
        self._browser = browser = self._make(machine)
        browser.listed.connect(self._show)
        browser.refused.connect(self._refuse)
        self.destroyed.connect(browser.leave)  # with the window
        first = next((pair.there for pair in machine.folders), "~")
        self.path.setText(first)
        self._ask(first)

    def _leave(self) -> None:
        if self._browser is not None:
            self._browser.listed.disconnect(self._show)
            self._browser.refused.disconnect(self._refuse)
            self._browser.leave()
            self._browser = None

    def _ask(self, path: str) -> None:
        assert self._browser is not None
        self._listing = None
        self._say(tr("Reading {path} on {machine}…", path=printable(path), machine=self.machine.currentText()))
        self._browser.ask(path)
        self._update()

    def _show(self, listing: FolderListing) -> None:
        self._listing = listing
        self.path.setText(listing.path)
        self.folders.clear()
        entries = [entry for entry in listing.folders if not (self._makes_new and entry.is_file)]
        for entry in entries:
            item = QTreeWidgetItem([printable(entry.name), size(entry.size) if entry.size is not None else ""])
            item.setIcon(0, icon("model" if entry.is_model else "folder"))
            item.setData(0, _NAME, entry.name)
            item.setData(0, _IS_MODEL, entry.is_model)
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.folders.addTopLevelItem(item)
        if listing.truncated:
            self._say(tr("The first {n} entries are shown; type the path of another folder.", n=len(listing.folders)))
        elif listing.is_model:
            self._say(tr("This folder is a model."))
        else:
            nothing = tr("No folders in here.") if self._makes_new else tr("No folders and no GGUF files in here.")
            self._say("" if entries else nothing)
        self._update()

    def _refuse(self, text: str) -> None:
        self.folders.clear()
        self._say(text, "failed")
        self._update()

    def _say(self, text: str, role: str = "muted") -> None:
        self.state.setText(text)
        self.state.setProperty("role", role)
        self.state.style().unpolish(self.state)
        self.state.style().polish(self.state)

    def _chosen(self) -> str:
        """Return the path that would be accepted; empty for none."""
        if self._listing is None:
            return ""
        folder = PurePosixPath(self._listing.path)
        if self._makes_new:
            name = self.name.text().strip()
            return str(folder / name) if name and "/" not in name and name not in (".", "..") else ""
        item = self.folders.currentItem()
        if item is None:
            return str(folder) if self._listing.is_model else ""
        return str(folder / item.data(0, _NAME)) if item.data(0, _IS_MODEL) else ""

    def _update(self) -> None:
        self.up.setEnabled(self._listing is not None and self._listing.path != "/")
        self.accept_button.setEnabled(bool(self._chosen()))
        tip = "" if self._chosen() else tr("Select a folder with a config.json, or a GGUF file")
        self.accept_button.setToolTip("" if self._makes_new else tip)

    def _activate(self, item: QTreeWidgetItem) -> None:
        """Open a model, or show a folder."""
        if self._listing is None:
            return
        if item.data(0, _IS_MODEL) and not self._makes_new:
            self._accept()
        else:
            self._ask(str(PurePosixPath(self._listing.path) / item.data(0, _NAME)))

    def _go_up(self) -> None:
        assert self._listing is not None
        self._ask(str(PurePosixPath(self._listing.path).parent))

    def _accept(self) -> None:
        if path := self._chosen():
            self.chosen.emit(join_location(self.machine.currentText(), path))
            self.accept()
