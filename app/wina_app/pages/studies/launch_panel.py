"""Launch panel of a study: roles, data, options and progress."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QProgressBar, QWidget

from wina_app.pages.studies.study_state import StudyProgress, StudyState
from wina_app.shared.launch_fields import DataFolder, LaunchFields
from wina_app.style.theme import GRID, HALF, font
from wina_app.widgets.boxes import STRETCH, fill, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.controls import SidePanel, beside, explain_disabled, labelled, push_button, text_label
from wina_app.widgets.file_dialogs import choose_gguf_file
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import data_sets

_WIDTH = GRID * 36
_CHANGING = "Its jobs stop after the current batch"
_MEASURING = "The study's jobs use this folder; wait for them or cancel them"


class StudyLaunch(SidePanel):
    """Panel to launch a study."""

    role_mapped = Signal(str, str)
    data_chosen = Signal(str)
    changed = Signal()
    estimate_requested = Signal()
    pause_requested = Signal()
    resume_requested = Signal()
    cancel_requested = Signal()

    def __init__(self) -> None:
        super().__init__(_WIDTH)
        self.column.setSpacing(GRID)
        self._roles_title = text_label("Models", "section")
        self._roles_hint = text_label("Choose a model for each role once; all studies remember it.", "muted", wrap=True)
        self._roles = vbox(None)
        self.roles: dict[str, QLineEdit] = {}
        self._shown_roles: tuple[Role, ...] = ()
        self.data = DataFolder()
        self.data.edit.editingFinished.connect(self.commit)
        self._study: StudySpec | None = None
        self._texts: tuple[str, ...] = ()
        self.options = LaunchFields()
        self.options.changed.connect(self.changed)
        # In this order: the estimate is of the folder that was typed.
        self.estimate = push_button("Estimate time", self.commit)
        self.estimate.clicked.connect(self.estimate_requested)
        self.estimated = text_label("", wrap=True)
        self._paused, self._progress = False, QWidget()
        self._build_progress()
        self._roles_term = HelpButton("Role")
        fill(
            self.column,
            beside(self._roles_title, self._roles_term, stretch=self._roles_title),
            self._roles_hint,
            self._roles,
            GRID,
            self.data,
            GRID,
            text_label("Next launch", "section"),
            self.options,
            beside(self.estimate),
            self.estimated,
            self._progress,
            STRETCH,
        )
        self.show_estimate("")
        self.show_progress(None)

    def _build_progress(self) -> None:
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.setAccessibleName("Progress of the study")
        self.amount = text_label("", wrap=True)
        self.amount.setFont(font(tabular=True))
        self.pause = push_button(
            "Pause", lambda: (self.resume_requested if self._paused else self.pause_requested).emit()
        )
        self.cancel = push_button("Cancel", self.cancel_requested.emit, name="Cancel the study")
        vbox(
            self._progress,
            text_label("Progress", "section"),
            self.bar,
            self.amount,
            beside(self.pause, self.cancel),
            margins=(0, GRID, 0, 0),
            spacing=HALF,
        )

    def commit(self) -> None:
        self.data_chosen.emit(self.data.edit.text())

    def show_study(self, study: StudySpec | None) -> None:
        """Show the study's fields; consent does not carry over."""
        self.options.withdraw_consent()
        has_tasks = study is not None and bool(study.evaluation.tasks)
        self.options.offer(has_tasks)
        self._texts = data_sets(study) if study is not None else ()
        self.data.setVisible(has_tasks or bool(self._texts))
        if study != self._study:
            self.data.edit.setModified(False)
        self._study = study
        if study is None:
            self.show_roles(())

    def show_data(self, folder: str, file_folder: str) -> None:
        """Show the data folder, or the study file's own if empty."""
        self.data.show_texts(self._texts, file_folder)
        if not self.data.edit.isModified():  # else it is being typed
            self.data.edit.setText(folder)

    def show_roles(self, roles: Sequence[Role]) -> None:
        """Show each role with its model's folder, GGUF file or Hugging Face id."""
        for widget in (self._roles_title, self._roles_term, self._roles_hint):
            widget.setVisible(bool(roles))
        if tuple(role.name for role in roles) != tuple(role.name for role in self._shown_roles):
            self._fill_roles(roles)
        self._shown_roles = tuple(roles)
        for role in roles:
            if not self.roles[role.name].hasFocus() or not self.roles[role.name].isModified():
                self.roles[role.name].setText(role.location)

    def _fill_roles(self, roles: Sequence[Role]) -> None:
        clear_layout(self._roles)
        self.roles = {}
        for role in roles:
            self._roles.addWidget(self._role_row(role))

    def _role_row(self, role: Role) -> QWidget:
        edit = QLineEdit()
        edit.setPlaceholderText("Folder, GGUF file or model id")
        edit.setAccessibleName(f"Model for {role.name}")
        edit.setClearButtonEnabled(True)
        edit.editingFinished.connect(lambda: self.role_mapped.emit(role.name, edit.text()))
        self.roles[role.name] = edit
        folder = push_button(
            "Folder…",
            lambda: self._choose_folder(role.name),
            name=f"Choose the folder of {role.name}",
        )
        row = QWidget()
        column = vbox(row, labelled(role.name, edit), spacing=HALF)
        file = push_button(
            "GGUF file…",
            lambda: choose_gguf_file(self, lambda path: self._map(role.name, str(path))),
            name=f"Choose the GGUF file of {role.name}",
        )
        buttons = [folder, file]
        if role.hub:
            hub = push_button(
                "Hub",
                lambda: self._map(role.name, role.hub),
                name=f"Use the published weights of {role.name}",
                tip=plain_tip(f"Downloads {role.hub} when the study is run"),
            )
            buttons.append(hub)
        column.addLayout(beside(*buttons))
        return row

    def _choose_folder(self, name: str) -> None:
        folder = QFileDialog.getExistingDirectory(self, f"Model folder for {name}")
        if folder:
            self._map(name, folder)

    def _map(self, name: str, location: str) -> None:
        self.roles[name].setText(location)
        self.role_mapped.emit(name, location)

    def show_state(self, state: StudyState | None) -> None:
        """Enable the estimate if something is missing."""
        trouble = state.trouble if state else ""
        explain_disabled(
            self.estimate,
            enabled=state is not None and not (state.request or trouble) and bool(state.missing),
            reason=trouble or "All runs are stored",
            explanation="Adds up the usual time of equal measurements that are stored",
        )

    def show_estimate(self, text: str) -> None:
        """Show the estimated time; empty if unknown."""
        self.estimated.setText(text)
        self.estimated.setVisible(bool(text))

    def show_progress(self, progress: StudyProgress | None) -> None:
        """Show the progress of the study's jobs; None for none."""
        self._progress.setVisible(progress is not None)
        self.data.offer(_MEASURING if progress is not None else "")
        if progress is None:
            return
        self._paused = progress.paused
        self.amount.setText(progress.text)
        # Qt draws an empty range as a busy bar: the fraction is unknown.
        self.bar.setRange(0, 1000 if progress.fraction is not None else 0)
        self.bar.setValue(round(1000 * (progress.fraction or 0.0)))
        self.pause.setText("Resume" if progress.paused else "Pause")
        self.pause.setAccessibleName("Resume the study" if progress.paused else "Pause the study")
        for button in (self.pause, self.cancel):
            explain_disabled(button, enabled=not progress.changing, reason=_CHANGING)
