"""What can be done with whole plans on the Sparsity page: its commands, and the menu that has them too."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.plan_library import Others, PlanLibrary
from wina_app.pages.sparsity.plan_menu import PlanMenu
from wina_app.pages.sparsity.plan_name_bar import PlanNameBar
from wina_app.pages.sparsity.presets import presets
from wina_app.pages.sparsity.toolbar import SparsityToolbar
from wina_app.shared.colour_scales import MAP_KEYS, map_texts
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_keys
from wina_app.widgets.file_dialogs import save_as

_MAP_KEYS = ("Alt+1", "Alt+2", "Alt+3", "Alt+4", "Alt+5", "Alt+6", "Alt+7", "Alt+8", "Alt+9", "Alt+0")
_FIRST_PRESET = 4
"""Of the digits for presets; those before it choose the appearance."""


class PlanCommands:
    """Adds the commands to the page, fills the menu, and enables what is possible."""

    def __init__(
        self,
        page: Page,
        library: PlanLibrary,
        sparsity: SparsityController,
        toolbar: SparsityToolbar,
        menu: PlanMenu,
        name_bar: PlanNameBar,
    ) -> None:
        self._page, self._library, self._sparsity = page, library, sparsity
        self._menu, self._name_bar = menu, name_bar
        self._tips: dict[QAction, str] = {}
        self._add_sharing()
        self._add_comparing()
        self._add_shown(toolbar)
        menu.load_chosen.connect(library.load)
        menu.delete_chosen.connect(library.delete)
        menu.saved_chosen.connect(library.compare_saved)
        menu.run_chosen.connect(library.compare_run)
        name_bar.named.connect(library.save)
        toolbar.preset_chosen.connect(library.use_preset)
        self.show_others(Others())

    def show_others(self, others: Others) -> None:
        """Offer the plans beside the one that is edited; without a model there are none."""
        self._menu.setEnabled(others.possible)
        self._menu.setToolTip("" if others.possible else tr("Open a model first"))
        for action, tip in self._tips.items():
            action.setEnabled(others.possible)
            action.setToolTip(tip if others.possible else tr("Open a model first"))
        self._name_bar.show_names([row.name for row in others.saved])
        self._menu.show_others(others, (self._before, self._allocated, self._file, self._stop))
        for action, possible, reason in (
            (self._before, others.before, tr("The plan was not changed yet")),
            (self._allocated, others.allocated, tr("Nothing was allocated here yet")),
            (self._stop, bool(others.compared), tr("The plan is compared with no other")),
        ):
            action.setEnabled(possible)
            action.setToolTip(with_keys(action.text() if possible else reason, action.shortcut().toString()))

    def _add_sharing(self) -> None:
        library = self._library
        save = self._add(tr("Save the plan under a name…"), self._name_bar.ask, "Ctrl+Shift+S")
        open_file = self._add(tr("Open a plan from a file…"), self._open, "Ctrl+Alt+P")
        save_file = self._add(tr("Save the plan as a file…"), self._save, "Ctrl+Alt+F")
        study = self._add(
            tr("Save a study of the plan…"),
            self._save_study,
            "Ctrl+Alt+S",
            tr("A file that the Studies page and the command line run, here or elsewhere"),
        )
        copy = self._add(
            tr("Copy the plan as text"), lambda: QGuiApplication.clipboard().setText(library.text()), "Ctrl+Alt+C"
        )
        paste = self._add(
            tr("Paste a plan that was copied as text"),
            lambda: library.paste(QGuiApplication.clipboard().text()),
            "Ctrl+Alt+V",
        )
        self._menu.offer(save)
        self._menu.offer(open_file, save_file, study)
        self._menu.offer(copy, paste)

    def _add_comparing(self) -> None:
        library, page = self._library, self._page
        self._before = page.add_command(
            tr("Compare with the plan before the last change"), library.compare_before, "Ctrl+E"
        )
        self._allocated = page.add_command(
            tr("Compare with the last allocation"), library.compare_allocated, "Ctrl+Alt+A"
        )
        self._file = self._add(tr("Compare with a plan in a file…"), self._compare_file, "Ctrl+Alt+E")
        self._stop = page.add_command(tr("Stop comparing"), library.stop_comparing, "Ctrl+Shift+E")

    def _add_shown(self, toolbar: SparsityToolbar) -> None:
        for key, keys in zip(MAP_KEYS, _MAP_KEYS, strict=True):
            texts = map_texts(key)
            self._add(
                tr("Show: {name}", name=texts.name),
                lambda key=key: self._sparsity.show(key),
                keys,
                texts.explanation,
            )
        for number, preset in enumerate(presets(), start=_FIRST_PRESET):
            self._add(
                tr("Preset: {name}", name=preset.name),
                lambda preset=preset: toolbar.choose_preset(preset),
                f"Ctrl+Alt+{number}",
                preset.explanation,
            )

    def _add(self, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        action = self._page.add_command(text, do, keys, tip)
        self._tips[action] = with_keys(tip or text, keys)
        return action

    # ---- files ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if name := self._chosen(tr("Open sparsity plan")):
            self._sparsity.open_plan(Path(name))

    def _save(self) -> None:
        if path := save_as(self._page, tr("Save sparsity plan"), "plan.json", _plans()):
            self._sparsity.save_plan(path)

    def _save_study(self) -> None:
        if path := save_as(self._page, tr("Save study"), "plan study.toml", tr("Study (*.toml *.json)")):
            self._library.save_study(path)

    def _compare_file(self) -> None:
        if name := self._chosen(tr("Compare with a sparsity plan")):
            self._library.compare_file(Path(name))

    def _chosen(self, title: str) -> str:
        kinds = _plans() + ";;" + tr("R-Sparse's searched shares (*.npy)")
        return QFileDialog.getOpenFileName(self._page, title, "", kinds)[0]


def _plans() -> str:
    return tr("Sparsity plan (*.json)")
