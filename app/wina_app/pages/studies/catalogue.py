"""Catalogue of studies with their roles' models and stored parts."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.jobs.job_list import run_hashes
from wina_app.pages.studies.study_state import Expansion, StudyState, expanded, outline_of, read_state
from wina_app.services.machines import only_here
from wina_app.services.workbench import Workbench
from wina_core.errors import WinaError
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import bind, with_data_folder
from wina_core.studies.gallery import GalleryEntry, entry_of, gallery, load_roles, needs, needs_data_folder, save_role

_ALL = ""
"""Key of the data folder in the settings."""
_NEXT_MS = 20
"""Pause between reading two studies."""


class StudyCatalogue(QObject):
    """Reader of study files and their stored parts, on the store's thread."""

    listed = Signal()
    """`entries` and `roles` were read."""
    mapped = Signal()
    """`roles` changed."""
    state_changed = Signal(object)
    """File of the study whose state changed."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self.entries: dict[Path, GalleryEntry] = {}
        self.states: dict[Path, StudyState] = {}
        self.roles: dict[str, str] = {}
        self.selected: Path | None = None
        """File of the study that is read first."""
        self.samples = False
        """True if that study's documents' completions are needed too."""
        self._workbench = workbench
        self._own_files = [Path(file) for file in workbench.settings.studies]
        self._expanded: dict[Path, tuple[StudySpec, Expansion]] = {}
        """Expansions since the catalogue was read; changed files need another reading."""
        self._waiting: list[Path] = []
        self._listings = 0
        """Number of readings of the list."""
        self._reading = 0
        """Number of changes of the states' inputs: older results are dropped."""
        self._next = QTimer(self, singleShot=True, interval=_NEXT_MS)
        self._next.timeout.connect(self.read_next)
        workbench.stopped.connect(self._next.stop)

    def read(self) -> None:
        """Read the gallery, roles and own files again."""
        own_files = list(self._own_files)
        self._expanded = {}
        self._listings += 1
        listing = self._listings

        def question(
            _store: Any,
        ) -> tuple[list[GalleryEntry], dict[str, str], str]:
            # On the store's thread, so that the window does not wait for a disk.
            shipped = list(gallery())
            shipped_files = {entry.file for entry in shipped}
            entries = [*shipped, *(entry_of(file, "own") for file in own_files if file not in shipped_files)]
            try:
                return entries, load_roles(), ""
            except WinaError as error:  # studies without roles run all the same
                return entries, {}, str(error)

        def answer(contents: tuple[list[GalleryEntry], dict[str, str], str]) -> None:
            if listing != self._listings:  # a later one knows files that were opened meanwhile
                return
            entries, self.roles, trouble = contents
            self.entries = {entry.file: entry for entry in entries}
            if trouble:
                self.failed.emit(trouble)
            self.listed.emit()

        self._workbench.store.ask(question, answer, self.failed.emit)

    def is_own(self, file: Path | None) -> bool:
        """Return whether the user added this file to the list."""
        return file in self._own_files

    def add(self, file: Path) -> None:
        """Add an own file to the list, and read it."""
        if file not in self._own_files and file not in self.entries:
            self._set_own([*self._own_files, file])
        self.read()

    def remove(self, file: Path) -> None:
        """Remove an own file from the list, and read it."""
        self._set_own([other for other in self._own_files if other != file])
        self.read()

    def _set_own(self, files: list[Path]) -> None:
        self._own_files = files
        self._workbench.settings.studies = [str(file) for file in files]

    def map_role(self, name: str, location: str) -> None:
        """Map a role to a folder or a Hugging Face id; empty for none."""

        def answer(roles: dict[str, str]) -> None:
            self.roles = roles
            self.mapped.emit()

        self._workbench.store.ask(lambda _store: save_role(name, location), answer, self.failed.emit)

    def open_roles(self, file: Path) -> list[Role]:
        """Return the roles without a model in the file, with their models."""
        study = self.entries[file].study
        roles = study.roles if study else ()
        return [
            role.model_copy(update={"location": self.roles.get(role.name, "")}) for role in roles if not role.location
        ]

    def bound_study(self, file: Path | None) -> StudySpec | None:
        """Return a study with its known roles mapped; None for an invalid file."""
        study = self.study(file) if file else None
        return bind(study, self.roles) if study else None

    def data_folder(self, file: Path) -> str:
        """Return the data folder chosen for all studies; empty for none, and for a study whose file names one."""
        entry = self.entries.get(file)
        names_folder = entry is not None and entry.study is not None and entry.study.evaluation.data_folder is not None
        return "" if names_folder else self._workbench.settings.study_data.get(_ALL, "")

    def choose_data_folder(self, folder: str) -> None:
        """Choose the data folder of all studies, and read their states again."""
        self._workbench.settings.study_data = {_ALL: folder} if folder else {}
        self.states.clear()
        self.read_states()

    def study(self, file: Path) -> StudySpec | None:
        """Return a study with the chosen data folder; None for an unlisted or unread file."""
        entry = self.entries.get(file)
        if entry is None or entry.study is None:
            return None
        return with_data_folder(entry.study, self.data_folder(file) or None)

    @property
    def environment(self) -> str:
        """Return the key of this computer's environment; empty before the engine starts and if jobs run elsewhere."""
        environment = self._workbench.environment
        return environment.key if environment and only_here(self._workbench.machines.chosen) else ""

    def read_states(self) -> None:
        """Read the states of all studies, the selected one first."""
        self._reading += 1
        self._waiting = [file for file, entry in self.entries.items() if entry.study and file != self.selected]
        self.read_states_of([self.selected] if self.selected else [])
        self._next.start()

    def read_states_of(self, files: Iterable[Path]) -> None:
        """Read the states of some studies, except unlisted and invalid ones."""
        for file in files:
            study = self.study(file)
            if study is not None:
                self._read_state(file, study)

    def read_next(self) -> bool:
        """Read the next waiting study; return whether there was one."""
        # One at a time, so that other queries of the store pass between.
        file = self._waiting.pop(0) if self._waiting else None
        self.read_states_of([file] if file else [])
        return file is not None

    def stop_reading(self) -> None:
        self._waiting = []

    def _read_state(self, file: Path, study: StudySpec) -> None:
        # Without models for its roles the runs are those of the published weights.
        stand_in = {role.name: role.hub or role.name for role in needs(study, self.roles)}
        # All inputs are taken here: the question runs on the store's thread, while the window may change them.
        bound, reading, queued = bind(study, self.roles | stand_in), self._reading, self._workbench.jobs.queued_runs
        needs_data = needs_data_folder(study)
        environment, samples = self.environment, self.samples and file == self.selected
        cached = self._expanded.get(file)

        def question(store: Any) -> tuple[Expansion, StudyState]:
            if cached and cached[0] == bound:
                expansion = cached[1]
            else:
                expansion = outline_of(bound) if needs_data else expanded(bound)
            return expansion, read_state(expansion, store, environment, run_hashes(queued), samples)

        def answer(result: tuple[Expansion, StudyState]) -> None:
            expansion, state = result
            if reading == self._reading:  # else roles or data folders have changed meanwhile
                self._expanded[file] = bound, expansion
                self.set_state(file, replace(state, needs=tuple(stand_in), needs_data=needs_data))

        def refused(text: str) -> None:
            if reading == self._reading:
                self.set_state(file, StudyState(trouble=text, needs=tuple(stand_in), needs_data=needs_data))

        self._workbench.store.ask(question, answer, refused)

    def forget_expansion(self, file: Path) -> None:
        """Expand a study anew when it is read next."""
        # A launch asks the machines that hold the models; the earlier expansion was made without them.
        self._expanded.pop(file, None)

    def set_state(self, file: Path, state: StudyState) -> None:
        self.states[file] = state
        if self._waiting:
            self._next.start()
        self.state_changed.emit(file)
