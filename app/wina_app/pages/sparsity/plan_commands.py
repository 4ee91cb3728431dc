"""Commands of the Sparsity page for whole plans; part of its assembly."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_choices import PlanChoices
from wina_app.pages.sparsity.plan_library import PlanLibrary
from wina_app.pages.sparsity.presets import presets
from wina_app.pages.sparsity.toolbar import SparsityToolbar
from wina_app.shared.colour_scales import MAP_KEYS, map_texts
from wina_app.style.translation import tr
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.file_dialogs import save_as

_MAP_KEYS = ("Alt+1", "Alt+2", "Alt+3", "Alt+4", "Alt+5", "Alt+6", "Alt+7", "Alt+8", "Alt+9", "Alt+0", "Ctrl+B")
_FIRST_PRESET = 4
"""First digit of presets; the digits below choose the appearance."""


class PlanCommands(QObject):
    """Commands of the page for whole plans, connected to their controllers; they live as long as the page."""

    def __init__(self, page: SparsityPage, library: PlanLibrary, sparsity: SparsityController) -> None:
        super().__init__(page)
        self._page, self._library, self._sparsity = page, library, sparsity
        self._menu, self._name_bar = page.plan_menu, page.plan_name
        self._tips: dict[QAction, str] = {}
        self._add_sharing()
        self._add_comparing()
        self._add_maps_and_presets(page.toolbar)
        self._menu.load_chosen.connect(library.load)
        self._menu.delete_chosen.connect(library.delete)
        self._menu.saved_chosen.connect(library.compare_saved)
        self._menu.run_chosen.connect(library.compare_run)
        self._name_bar.named.connect(library.save)
        page.toolbar.preset_chosen.connect(library.use_preset)
        library.choices_changed.connect(self.show_choices)
        self.show_choices(PlanChoices())

    def show_choices(self, choices: PlanChoices) -> None:
        """Show the plans that can be chosen, and enable what is possible."""
        self._menu.setEnabled(choices.possible)
        self._menu.setToolTip("" if choices.possible else tr("Open a model first"))
        for action, tip in self._tips.items():
            action.setEnabled(choices.possible)
            action.setToolTip(tip if choices.possible else tr("Open a model first"))
        self._name_bar.show_names([row.name for row in choices.saved])
        self._menu.show_choices(choices, (self._before, self._allocated, self._file, self._stop))
        for action, possible, reason in (
            (self._before, choices.before, tr("The plan has not changed yet")),
            (self._allocated, choices.allocated, tr("Nothing was allocated here yet")),
            (self._stop, bool(choices.compared), tr("No plan is compared")),
        ):
            action.setEnabled(possible)
            action.setToolTip(with_shortcut(action.text() if possible else reason, action.shortcut().toString()))

    def _add_sharing(self) -> None:
        library = self._library
        save = self._add(tr("Save the plan under a name…"), self._name_bar.ask, "Ctrl+Shift+S")
        open_file = self._add(tr("Open a plan from a file…"), self._open, "Ctrl+Alt+P")
        save_file = self._add(tr("Save the plan as a file…"), self._save, "Ctrl+Alt+F")
        study = self._add(
            tr("Save a study of the plan…"),
            self._save_study,
            "Ctrl+Alt+S",
            tr("A file for the Studies page and the command line"),
        )
        copy = self._add(
            tr("Copy the plan as text"), lambda: QGuiApplication.clipboard().setText(library.text()), "Ctrl+Alt+C"
        )
        paste = self._add(
            tr("Paste a plan copied as text"),
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

    def _add_maps_and_presets(self, toolbar: SparsityToolbar) -> None:
        for key, keys in zip(MAP_KEYS, _MAP_KEYS, strict=True):
            texts = map_texts(key)
            self._add(
                tr("Show: {name}", name=texts.name),
                partial(self._sparsity.show, key),
                keys,
                texts.explanation,
            )
        for number, preset in enumerate(presets(), start=_FIRST_PRESET):
            self._add(
                tr("Preset: {name}", name=preset.name),
                partial(toolbar.choose_preset, preset),
                f"Ctrl+Alt+{number}",
                preset.explanation,
            )

    def _add(self, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        action = self._page.add_command(text, do, keys, tip)
        self._tips[action] = with_shortcut(tip or text, keys)
        return action

    def _open(self) -> None:
        if name := self._choose_file(tr("Open sparsity plan")):
            self._sparsity.open_plan(Path(name))

    def _save(self) -> None:
        if path := save_as(self._page, tr("Save sparsity plan"), "plan.wina.json", _plans()):
            self._sparsity.save_plan(path)

    def _save_study(self) -> None:
        if path := save_as(self._page, tr("Save study"), "plan study.wina.toml", tr("Study (*.toml *.json)")):
            self._library.save_study(path)

    def _compare_file(self) -> None:
        if name := self._choose_file(tr("Compare with a sparsity plan")):
            self._library.compare_file(Path(name))

    def _choose_file(self, title: str) -> str:
        kinds = _plans() + ";;" + tr("R-Sparse's searched shares (*.npy)")
        return QFileDialog.getOpenFileName(self._page, title, "", kinds)[0]


def _plans() -> str:
    return tr("Sparsity plan (*.json)")
