"""The gallery as this machine has it: studies, what their roles stand for, and how much of each is stored."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.jobs.job_list import run_hashes
from wina_app.pages.studies.study_state import Expansion, StudyState, expansion_of, read_state
from wina_app.services.workbench import Workbench
from wina_core.errors import WinaError
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import bind, with_data_folder
from wina_core.studies.gallery import GalleryEntry, entry_of, gallery, needs
from wina_core.studies.model_roles import load_roles, save_role

_NEXT_MS = 20
"""Between two studies whose states are read."""


class StudyCatalogue(QObject):
    """Reads files and store on the store's thread; nothing before the first `read`."""

    listed = Signal()
    """`entries` and `roles` were read."""
    mapped = Signal()
    """`roles` changed."""
    state_changed = Signal(object)
    """Of the study with this file."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench) -> None:
        super().__init__()
        self.entries: dict[Path, GalleryEntry] = {}
        self.states: dict[Path, StudyState] = {}
        self.roles: dict[str, str] = {}
        self.selected: Path | None = None
        """The study that is read first."""
        self.samples = False
        """Whether of that study documents' answers are wanted too."""
        self._workbench = workbench
        self._data = workbench.settings.study_data
        self._own = [Path(file) for file in workbench.settings.studies]
        self._expanded: dict[Path, tuple[StudySpec, Expansion]] = {}
        """What was expanded since the gallery was read; files that change are seen when it is read again."""
        self._waiting: list[Path] = []
        self._listings = 0
        """How often the list was asked for."""
        self._reading = 0
        """Counts changes of what the states depend on: answers to older questions are passed over."""
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.setInterval(_NEXT_MS)
        self._next.timeout.connect(self.read_next)
        workbench.stopped.connect(self._next.stop)

    # ---- files and roles -----------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read gallery, roles and the user's own files again."""
        own = list(self._own)
        self._expanded = {}
        self._listings += 1
        listing = self._listings

        def question(_store: Any) -> tuple[list[GalleryEntry], dict[str, str], str]:
            shipped = list(gallery())
            known = {entry.file for entry in shipped}
            entries = [*shipped, *(entry_of(file, "own") for file in own if file not in known)]
            try:
                return entries, load_roles(), ""
            except WinaError as error:  # studies without roles run all the same
                return entries, {}, str(error)

        def answer(found: tuple[list[GalleryEntry], dict[str, str], str]) -> None:
            if listing != self._listings:  # a later one knows files that were opened meanwhile
                return
            entries, self.roles, trouble = found
            self.entries = {entry.file: entry for entry in entries}
            if trouble:
                self.failed.emit(trouble)
            self.listed.emit()

        self._workbench.store.ask(question, answer, self.failed.emit)

    def is_own(self, file: Path | None) -> bool:
        """Whether the user opened this file; others are listed because of where they are."""
        return file in self._own

    def add(self, file: Path) -> None:
        """List a file of the user's, now and from now on; `read` follows."""
        if file not in self._own and file not in self.entries:
            self._set_own([*self._own, file])
        self.read()

    def remove(self, file: Path) -> None:
        """List it no longer; `read` follows."""
        self._set_data_folder(file, "")
        self._set_own([each for each in self._own if each != file])
        self.read()

    def _set_own(self, files: list[Path]) -> None:
        self._own = files
        self._workbench.settings.studies = [str(file) for file in files]

    def map_role(self, name: str, location: str) -> None:
        """A role stands for a folder or a hub id from now on; empty for none."""

        def answer(roles: dict[str, str]) -> None:
            self.roles = roles
            self.mapped.emit()

        self._workbench.store.ask(lambda _store: save_role(name, location), answer, self.failed.emit)

    def open_roles(self, file: Path) -> list[Role]:
        """The roles that the user maps: those to which the file itself gives no model, with what they stand for."""
        study = self.entries[file].study
        roles = study.roles if study else ()
        return [
            role.model_copy(update={"location": self.roles.get(role.name, "")}) for role in roles if not role.location
        ]

    def bound(self, file: Path | None) -> StudySpec | None:
        """A study with its roles mapped as far as they are; None for a file that cannot be read."""
        study = self.study(file) if file else None
        return bind(study, self.roles) if study else None

    # ---- data ----------------------------------------------------------------------------------------------------

    def data_folder(self, file: Path) -> str:
        """The folder that a study's data are taken from here, whatever its file says; empty for none."""
        return self._data.get(str(file), "")

    def choose_data_folder(self, file: Path, folder: str) -> None:
        """Take a study's data from a folder from now on, or as its file says for an empty one; what is stored of it so
        has to be read anew."""
        self._set_data_folder(file, folder)
        self.states.pop(file, None)
        self.read_these([file])

    def _set_data_folder(self, file: Path, folder: str) -> None:
        others = {name: each for name, each in self._data.items() if name != str(file)}
        self._data = others | ({str(file): folder} if folder else {})
        self._workbench.settings.study_data = self._data

    def study(self, file: Path) -> StudySpec | None:
        """A study with its data from where they are taken here; None for a file that is not listed or not read."""
        entry = self.entries.get(file)
        if entry is None or entry.study is None:
            return None
        return with_data_folder(entry.study, self.data_folder(file) or None)

    # ---- what is stored ------------------------------------------------------------------------------------------

    @property
    def environment(self) -> str:
        """Key of this machine's; empty until the engine has told."""
        return self._workbench.environment.key if self._workbench.environment else ""

    def read_states(self) -> None:
        """Read what is stored of every study, of the selected one first."""
        self._reading += 1
        self._waiting = [file for file, entry in self.entries.items() if entry.study and file != self.selected]
        self.read_these([self.selected] if self.selected else [])
        self._next.start()

    def read_these(self, files: Iterable[Path]) -> None:
        """Read what is stored of some studies; those that are not listed, or cannot be read, are passed over."""
        for file in files:
            study = self.study(file)
            if study is not None:
                self._read_state(file, study)

    def read_next(self) -> bool:
        """Go on with the next study that waits: one after the other, so that what the store is asked and told meanwhile
        need not wait for all. Returns whether there was one."""
        file = self._waiting.pop(0) if self._waiting else None
        self.read_these([file] if file else [])
        return file is not None

    def stop_reading(self) -> None:
        """Leave out the studies that wait."""
        self._waiting = []

    def _read_state(self, file: Path, study: StudySpec) -> None:
        # Its runs can be told before anything stands for its roles: as if the published weights did.
        stand_in = {role.name: role.hub or role.name for role in needs(study, self.roles)}
        bound, reading, queued = bind(study, self.roles | stand_in), self._reading, self._workbench.jobs.queued_runs
        environment, samples = self.environment, self.samples and file == self.selected
        known = self._expanded.get(file)

        def question(store: Any) -> tuple[Expansion, StudyState]:
            expansion = known[1] if known and known[0] == bound else expansion_of(bound)
            return expansion, read_state(expansion, store, environment, run_hashes(queued), samples)

        def answer(found: tuple[Expansion, StudyState]) -> None:
            expansion, state = found
            if reading == self._reading:
                self._expanded[file] = bound, expansion
                self.set_state(file, replace(state, needs=tuple(stand_in)))

        def refused(text: str) -> None:
            if reading == self._reading:
                self.set_state(file, StudyState(trouble=text, needs=tuple(stand_in)))

        self._workbench.store.ask(question, answer, refused)

    def set_state(self, file: Path, state: StudyState) -> None:
        """How much of a study is stored was found out."""
        self.states[file] = state
        if self._waiting:
            self._next.start()
        self.state_changed.emit(file)
