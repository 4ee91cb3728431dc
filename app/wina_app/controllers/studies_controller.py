"""Keeps the Studies page in step with gallery, roles and store, and turns a study into the jobs that it still needs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.models.job_list import JobEntry
from wina_app.models.studies import (
    Expansion,
    StudyProgress,
    StudyState,
    estimate_text,
    expansion_of,
    launch_text,
    progress,
    read_state,
)
from wina_app.workbench import Workbench
from wina_core.engine.protocol import EstimateJob, EvaluateJob, Job, LatencyJob, PendingRun
from wina_core.errors import WinaError
from wina_core.gallery import GalleryEntry, gallery, needs
from wina_core.records import EstimateRecord
from wina_core.roles import load_roles, save_role
from wina_core.study import bind, expand, load_study
from wina_core.study_specs import Role, StudySpec

_PAUSE_MS = 1000
"""Between two readings of the store while results land."""
_NEXT_MS = 20
"""Between two studies whose states are read."""


@dataclass(frozen=True)
class LaunchChoice:
    """What holds for one launch."""

    samples: bool
    """Whether every document's answers are kept."""
    run_model_code: bool
    """Consent to run what the model writes."""


class StudiesView(Protocol):
    """What the controller needs of the page."""

    def choice(self) -> LaunchChoice:
        """What is ticked for the next launch."""

    def withdraw_consent(self) -> None:
        """Consent holds for one launch."""

    def show_list(self, entries: Sequence[GalleryEntry], selected: Path | None) -> None:
        """List the gallery, in its order."""

    def show_study(self, entry: GalleryEntry | None, *, removable: bool) -> None:
        """Show what the selected study consists of, or why its file cannot be read."""

    def show_roles(self, roles: Sequence[Role]) -> None:
        """Show which models the selected study's roles stand for here."""

    def show_state(self, file: Path, state: StudyState | None) -> None:
        """Show in the list, and if it is selected beside it, how much of a study is stored; None while it is read."""

    def show_active(self, files: Collection[Path]) -> None:
        """Mark in the list the studies that have jobs."""

    def show_progress(self, progress: StudyProgress | None) -> None:
        """Show how far the selected study's jobs are; None when there are none."""

    def show_estimate(self, text: str, *, running: bool = False) -> None:
        """Say how long the selected study should take; empty for nothing known."""

    def show_report(self, page: Path | None) -> None:
        """Offer to open the selected study's report; None where none was made."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""

    def clear_message(self) -> None:
        """Take the inline message away."""


class StudiesController(QObject):
    """What the page counts is what `run` queues."""

    results_requested = Signal(object)
    """The selected study, its roles mapped, is to be shown on the Results page."""

    def __init__(self, workbench: Workbench, view: StudiesView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._entries: dict[Path, GalleryEntry] = {}
        self._own: list[Path] = [Path(file) for file in workbench.settings.studies]
        self._roles: dict[str, str] = {}
        self._states: dict[Path, StudyState] = {}
        self._expanded: dict[Path, tuple[StudySpec, Expansion]] = {}
        """What was expanded since the gallery was read; files that change are seen when it is read again."""
        self._waiting: list[Path] = []
        self._estimates: dict[Path, str] = {}
        self._reports: dict[Path, Path] = {}
        self._selected: Path | None = None
        self._jobs: dict[str, Path] = {}
        self._reading = 0
        """Counts changes of what the states depend on: answers to older questions are passed over."""
        self._visible = self._launching = False
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_PAUSE_MS)
        self._pause.timeout.connect(self._read_current)
        self._next = QTimer(self)
        self._next.setSingleShot(True)
        self._next.setInterval(_NEXT_MS)
        self._next.timeout.connect(self._read_next)
        workbench.results_changed.connect(self._on_results)
        workbench.environment_changed.connect(self._read_states)
        workbench.jobs.added.connect(self._on_job)
        workbench.jobs.changed.connect(self._on_job)
        workbench.jobs.ended.connect(self._on_job_ended)
        for timer in (self._pause, self._next):
            workbench.stopped.connect(timer.stop)

    # ---- what the user does --------------------------------------------------------------------------------------

    def set_visible(self, visible: bool) -> None:
        """Whether the page is shown: nothing is read for a hidden one, and all of it on showing."""
        self._visible = visible
        if visible:
            self.read()

    def select(self, file: Path) -> None:
        """Show a study of the list."""
        if file != self._selected and file in self._entries:
            self._view.clear_message()
            self._selected = file
            self._show_selected()

    def open_file(self, file: Path) -> None:
        """Add a study file of the user's to the list and show it; one that is broken shows why."""
        if file not in self._own and file not in self._entries:
            self._own.append(file)
            self._workbench.settings.studies = [str(each) for each in self._own]
        self._view.clear_message()
        self._selected = file
        self.read()

    def forget(self) -> None:
        """Take the selected file of the user's from the list; the file itself stays."""
        if self._selected in self._own:
            self._own.remove(self._selected)
            self._workbench.settings.studies = [str(each) for each in self._own]
            self._selected = None
            self.read()

    def map_role(self, name: str, location: str) -> None:
        """A role stands for a folder or a hub id from now on; empty for none."""
        location = location.strip()
        if location == self._roles.get(name, ""):
            return

        def saved(roles: dict[str, str]) -> None:
            self._roles = roles
            self._estimates.clear()
            self._show_selected()
            self._read_states()

        def question(_store: Any) -> dict[str, str]:
            return save_role(name, location)

        self._view.clear_message()
        self._workbench.store.ask(question, saved, self._view.show_error)

    def change(self) -> None:
        """Something was ticked on which depends what is missing."""
        if self._selected is not None:
            self._read_state(self._selected)

    def estimate(self) -> None:
        """Time a few documents of what is missing."""
        file, state = self._selected, self._state
        if file is None or state is None or state.needs or not state.missing:
            return
        consent, missing, title = self._view.choice().run_model_code, state.missing, self._entries[file].title
        environment = self._workbench.environment
        hardware = environment.hardware if environment else ""

        def answer(seconds: dict[str, float]) -> None:
            if not self._is_estimating(file):
                job = EstimateJob(runs=missing, stored=seconds, run_model_code=consent)
                self._submit(file, job, f"Estimate {title}")

        self._view.clear_message()
        self._workbench.store.ask(
            lambda store: store.unit_seconds([run.spec for run in missing], hardware), answer, self._view.show_error
        )

    def run(self) -> None:
        """Queue what is neither stored nor queued: the missing measurements of runs, and of the sweep."""
        file, study = self._selected, self._bound(self._selected)
        if file is None or study is None or self._launching:
            return
        self._view.clear_message()
        choice, queued = self._view.choice(), self._queued()
        environment = self._environment

        def question(store: Any) -> StudyState:
            expansion = expansion_of(study)
            store.save_study(study, expansion.runs)
            return read_state(expansion, store, environment, queued, choice.samples)

        def answer(state: StudyState) -> None:
            self._launching = False
            self._set_state(file, state)
            self._launch(file, study, choice, state, queued)

        def refused(text: str) -> None:
            self._launching = False
            self._view.show_error(text)

        self._launching = True
        self._workbench.store.ask(question, answer, refused)

    def pause(self) -> None:
        """Hold the selected study's jobs."""
        for entry in self._active(self._selected):
            self._workbench.pause(entry.id)

    def resume(self) -> None:
        """Let them go on."""
        for entry in self._active(self._selected):
            if entry.state == "paused":
                self._workbench.resume(entry.id)

    def cancel(self) -> None:
        """End them; what is stored stays."""
        for entry in self._active(self._selected):
            self._workbench.cancel(entry.id)

    def show_results(self) -> None:
        """Go to the selected study's numbers."""
        study = self._bound(self._selected)
        if study is not None:
            self.results_requested.emit(study)

    def report(self, folder: Path) -> None:
        """Write the selected study's report into a folder."""
        file, study = self._selected, self._bound(self._selected)
        if file is None or study is None:
            return

        def question(store: Any) -> Path:
            from wina_core.report import make_report  # with all that tables are written by

            if store.study_spec(study.content_hash()) is None:  # its runs are those of others
                runs = expand(study) if study.models else ()
                if not store.pending(runs):
                    store.save_study(study, runs)
            return make_report(store, study, folder)

        def answer(page: Path) -> None:
            self._reports[file] = page
            self._view.show_notice(f"Saved the report as {page}, and as Markdown beside it.")
            if file == self._selected:
                self._view.show_report(page)

        self._view.show_notice("Writing the report\N{HORIZONTAL ELLIPSIS}")
        self._workbench.store.ask(question, answer, self._view.show_error)

    # ---- gallery, roles and states -------------------------------------------------------------------------------

    def read(self) -> None:
        """Read gallery, roles and the user's own files again, then what is stored of each study."""
        own = list(self._own)
        self._expanded = {}

        def question(_store: Any) -> tuple[list[GalleryEntry], dict[str, str], str]:
            shipped = list(gallery())
            known = {entry.file for entry in shipped}
            entries = [*shipped, *(_own_entry(file) for file in own if file not in known)]
            try:
                return entries, load_roles(), ""
            except WinaError as error:  # studies without roles run all the same
                return entries, {}, str(error)

        def answer(found: tuple[list[GalleryEntry], dict[str, str], str]) -> None:
            entries, roles, trouble = found
            if trouble:
                self._view.show_error(trouble)
            changed = entries != list(self._entries.values()) or roles != self._roles
            self._entries, self._roles = {entry.file: entry for entry in entries}, roles
            if self._selected not in self._entries:
                self._selected = next(iter(self._entries), None)
                changed = True
            self._view.show_list(entries, self._selected)
            self._show_active()
            for file, state in self._states.items():
                if file in self._entries:
                    self._view.show_state(file, state)
            if changed:
                self._show_selected()
            self._read_states()

        self._workbench.store.ask(question, answer, self._view.show_error)

    def _read_states(self) -> None:
        if not self._visible:
            return
        self._reading += 1
        self._waiting = [file for file, entry in self._entries.items() if entry.study and file != self._selected]
        if self._selected in self._entries:
            self._read_state(self._selected)
        self._next.start()

    def _read_current(self) -> None:
        """What is computed now, and what is looked at."""
        if self._visible:
            for file in {file for file in (self._selected, *self._jobs.values()) if file in self._entries}:
                self._read_state(file)

    def _read_next(self) -> None:
        """One study after the other, so that what the store is asked and told meanwhile need not wait for all."""
        if self._visible and self._waiting:
            self._read_state(self._waiting.pop(0))

    def _read_state(self, file: Path) -> None:
        study = self._entries[file].study
        if study is None:
            return
        lacking = needs(study, self._roles)
        # Its runs can be told before anything stands for its roles: as if the published weights did.
        stand_in = {role.name: role.hub or role.name for role in lacking}
        bound, reading, queued = bind(study, self._roles | stand_in), self._reading, self._queued()
        environment = self._environment
        samples = file == self._selected and self._view.choice().samples

        known = self._expanded.get(file)

        def question(store: Any) -> tuple[Expansion, StudyState]:
            expansion = known[1] if known and known[0] == bound else expansion_of(bound)
            return expansion, read_state(expansion, store, environment, queued, samples)

        def answer(found: tuple[Expansion, StudyState]) -> None:
            expansion, state = found
            if reading == self._reading:
                self._expanded[file] = bound, expansion
                self._set_state(file, replace(state, needs=tuple(stand_in)))

        def refused(text: str) -> None:
            if reading == self._reading:
                self._set_state(file, StudyState(trouble=text, needs=tuple(stand_in)))

        self._workbench.store.ask(question, answer, refused)

    def _set_state(self, file: Path, state: StudyState) -> None:
        self._states[file] = state
        if self._waiting:
            self._next.start()
        self._view.show_state(file, state)
        if file == self._selected:
            self._show_progress()

    def _show_selected(self) -> None:
        file = self._selected
        entry = self._entries.get(file) if file else None
        self._view.show_study(entry, removable=file in self._own)
        if file is None or entry is None:
            return
        self._view.show_roles(self._open_roles(entry))
        self._view.show_state(file, self._states.get(file))
        self._view.show_estimate(self._estimates.get(file, ""), running=self._is_estimating(file))
        self._view.show_report(self._reports.get(file))
        self._show_progress()

    def _open_roles(self, entry: GalleryEntry) -> list[Role]:
        """The roles that the user maps: those to which the file itself gives no model, with what they stand for."""
        roles = entry.study.roles if entry.study else ()
        return [
            role.model_copy(update={"location": self._roles.get(role.name, "")}) for role in roles if not role.location
        ]

    @property
    def _state(self) -> StudyState | None:
        return self._states.get(self._selected) if self._selected else None

    @property
    def _environment(self) -> str:
        return self._workbench.environment.key if self._workbench.environment else ""

    def _bound(self, file: Path | None) -> StudySpec | None:
        """A study with its roles mapped as far as they are; None for a file that cannot be read."""
        entry = self._entries.get(file) if file else None
        return bind(entry.study, self._roles) if entry and entry.study else None

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def _launch(
        self, file: Path, study: StudySpec, choice: LaunchChoice, state: StudyState, queued: frozenset[str]
    ) -> None:
        runs = tuple(run for run in state.missing if run.spec.content_hash() not in queued)
        title = self._entries[file].title
        if runs:
            job = EvaluateJob(runs=runs, samples=choice.samples, run_model_code=choice.run_model_code)
            self._submit(file, job, title)
        if study.latency is not None and state.points_missing and not self._times(study):
            self._submit(file, LatencyJob(spec=study.latency, stored=state.timed or {}), f"{title}: products")
        self._view.withdraw_consent()
        self._view.show_notice(launch_text(state, runs))
        self._read_current()

    def _submit(self, file: Path, job: Job, title: str) -> None:
        job_id = self._workbench.submit(job, title)
        self._jobs[job_id] = file
        self._show_active()
        self._on_job(job_id)

    def _times(self, study: StudySpec) -> bool:
        jobs = [entry.job for entry in self._workbench.jobs.active]
        return any(isinstance(job, LatencyJob) and job.spec == study.latency for job in jobs)

    def _queued(self) -> frozenset[str]:
        """Hashes of the runs that jobs of this window will still compute."""
        jobs = [entry.job for entry in self._workbench.jobs.active]
        runs: list[PendingRun] = [run for job in jobs if isinstance(job, EvaluateJob) for run in job.runs]
        return frozenset(run.spec.content_hash() for run in runs)

    def _active(self, file: Path | None) -> list[JobEntry]:
        """The jobs that measure a study and have not ended."""
        mine = [entry for entry in self._workbench.jobs.active if self._jobs.get(entry.id) == file]
        return [entry for entry in mine if not isinstance(entry.job, EstimateJob)]

    def _is_estimating(self, file: Path) -> bool:
        jobs = [entry for entry in self._workbench.jobs.active if isinstance(entry.job, EstimateJob)]
        return any(self._jobs.get(entry.id) == file for entry in jobs)

    def _show_active(self) -> None:
        self._view.show_active({file for file in self._jobs.values() if self._active(file)})

    def _show_progress(self) -> None:
        state = self._state or StudyState()
        self._view.show_progress(progress(state, self._active(self._selected)))

    def _on_job(self, job_id: str) -> None:
        if self._selected is None or self._jobs.get(job_id) != self._selected:
            return
        if isinstance(self._workbench.jobs[job_id].job, EstimateJob):
            text = self._estimates.get(self._selected, "")
            self._view.show_estimate(text, running=self._is_estimating(self._selected))
        else:
            self._show_progress()

    def _on_job_ended(self, job_id: str) -> None:
        entry, file = self._workbench.jobs[job_id], self._jobs.pop(job_id, None)
        if file is None:
            self._on_results()
            return
        self._show_active()
        estimating = isinstance(entry.job, EstimateJob)
        if entry.error:
            failed = f" ({entry.runs_failed} runs failed, the last one with this.)" if entry.runs_failed > 1 else ""
            self._view.show_error(entry.error + failed)
        elif entry.state == "cancelled" and not estimating:
            self._view.show_notice("The study was cancelled; finished measurements are stored.")
        if isinstance(entry.result, EstimateRecord):
            self._estimates[file] = estimate_text(entry.result, self._states.get(file) or StudyState())
        if estimating and file == self._selected:
            self._view.show_estimate(self._estimates.get(file, ""))
        if not estimating:
            self._estimates.pop(file, None)
            if file == self._selected:
                self._view.show_estimate("")
                self._show_progress()
            self._read_states()

    def _on_results(self) -> None:
        if not self._pause.isActive():
            self._pause.start()


def _own_entry(file: Path) -> GalleryEntry:
    """A file of the user's; one that cannot be read with the reason."""
    try:
        return GalleryEntry(file, "own", load_study(file))
    except WinaError as error:
        return GalleryEntry(file, "own", None, str(error))
