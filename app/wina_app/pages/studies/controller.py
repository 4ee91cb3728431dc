"""Controller of the Studies page: show studies, and queue their missing measurements."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import run_hashes
from wina_app.pages.studies.catalogue import StudyCatalogue
from wina_app.pages.studies.page import StudiesPage
from wina_app.pages.studies.reports import StudyReports
from wina_app.pages.studies.study_state import (
    StudyState,
    estimate_text,
    expansion_of,
    launch_text,
    progress,
    read_state,
)
from wina_app.services.hosted_jobs import ArraySubmission
from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion
from wina_app.shared.task_consent import ask_consent, or_refusal
from wina_core.errors import WinaError
from wina_core.jobs import Job, LatencyJob
from wina_core.jobs.progress import expected_seconds
from wina_core.remote.slurm_settings import parse_settings
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import labelled
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.launch import Launched, launch
from wina_core.studies.tasks.task_code import TaskCodeError, task_code

_PAUSE_MS = 1000
"""Pause between two readings of the store while results arrive."""


class StudiesController(QObject):
    """Controller of the selected study and its jobs."""

    results_requested = Signal(object)
    """StudySpec with its roles mapped, to be shown on the Results page."""

    def __init__(
        self,
        workbench: Workbench,
        view: StudiesPage,
        reports: StudyReports | None = None,
        arrays: ArraySubmission | None = None,
    ) -> None:
        """Connect to the workbench; `reports` and `arrays` replace the processes of `wina` in tests."""
        super().__init__()
        self._workbench, self._view = workbench, view
        self._catalogue = StudyCatalogue(workbench)
        self._files: dict[str, Path] = {}
        """Studies of the jobs that this window queued for them."""
        self._question = ProductQuestion(workbench, view)
        self._reports = reports or StudyReports(workbench)
        self._arrays = arrays or ArraySubmission(workbench)
        self._slurm = ""
        """Settings of the last submission."""
        self._shown_study: tuple[GalleryEntry | None, list[Role]] | None = None
        self._estimates: dict[Path, str] = {}
        self._visible = self._launching = False
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._read_current)
        # Consent to run code is given for the chosen machines.
        workbench.machines.changed.connect(view.launch.options.withdraw_consent)
        self._catalogue.listed.connect(self._on_listed)
        self._catalogue.mapped.connect(self._on_mapped)
        self._catalogue.state_changed.connect(self._on_state)
        self._catalogue.failed.connect(view.show_error)
        workbench.results_changed.connect(self._on_results)
        workbench.environment_changed.connect(self._read_states)
        workbench.machines.changed.connect(self._on_machines)
        for signal in (workbench.jobs.added, workbench.jobs.requeued, workbench.jobs.changed):
            signal.connect(lambda job_id: self._on_job(self._files[job_id]) if job_id in self._files else None)
        workbench.jobs.ended.connect(self._on_job_ended)
        self._reports.written.connect(self._on_report)
        self._reports.failed.connect(view.show_error)
        self._arrays.submitted.connect(view.show_notice)
        self._arrays.failed.connect(view.show_error)
        workbench.stopped.connect(self._pause.stop)
        self._connect_view()

    def _connect_view(self) -> None:
        view, launch = self._view, self._view.launch
        view.visible_changed.connect(self.set_visible)
        view.list.chosen.connect(self.select)
        view.study_restored.connect(self.restore)
        view.file_opened.connect(self.open_file)
        view.forget_requested.connect(self.forget)
        view.run_requested.connect(self.run)
        view.results_requested.connect(self.show_results)
        view.report_requested.connect(self.report)
        view.submit_requested.connect(self.submit)
        launch.changed.connect(self.change)
        launch.role_mapped.connect(self.map_role)
        launch.data_chosen.connect(self.choose_data)
        launch.estimate_requested.connect(self.estimate)
        launch.pause_requested.connect(self.pause)
        launch.resume_requested.connect(self.resume)
        launch.cancel_requested.connect(self.cancel)

    @property
    def _selected(self) -> Path | None:
        return self._catalogue.selected

    @property
    def _state(self) -> StudyState | None:
        return self._catalogue.states.get(self._selected) if self._selected else None

    def set_visible(self, visible: bool) -> None:
        """Read while the page is shown, and not while it is hidden."""
        self._visible = visible
        if visible:
            self._catalogue.read()
        else:
            self._catalogue.stop_reading()

    def select(self, file: Path) -> None:
        if file != self._selected and file in self._catalogue.entries:
            self._view.clear_message()
            before, self._catalogue.selected = self._selected, file
            self._show_selected()
            if self._catalogue.samples:  # they are required of the selected study alone
                self._catalogue.read_states_of([path for path in (before, file) if path])

    def restore(self, file: Path) -> None:
        """Select a study as soon as the list is read, if it is still there."""
        if self._catalogue.entries:
            self.select(file)
        else:
            self._catalogue.selected = file

    def open_file(self, file: Path) -> None:
        """Add an own study file to the list and select it."""
        self._view.clear_message()
        self._catalogue.selected = file
        self._catalogue.add(file)

    def forget(self) -> None:
        """Remove the selected own file from the list, not from the disk."""
        file = self._selected
        if file is not None and self._catalogue.is_own(file):
            self._catalogue.selected = None
            self._catalogue.remove(file)

    def map_role(self, name: str, location: str) -> None:
        """Map a role to a folder or a Hugging Face id; empty for none."""
        if location.strip() != self._catalogue.roles.get(name, ""):
            self._view.clear_message()
            self._catalogue.map_role(name, location.strip())

    def choose_data(self, folder: str) -> None:
        """Choose the data folder of all studies; empty for none."""
        file = self._selected
        if file is None or folder.strip() == self._catalogue.data_folder(file):
            return
        self._view.clear_message()
        self._estimates.clear()
        self._catalogue.choose_data_folder(folder.strip())
        self._show_selected()

    def change(self) -> None:
        """Read the selected study again for the ticked options."""
        self._catalogue.samples = self._view.launch.options.choice().samples
        self._catalogue.read_states_of([self._selected] if self._selected else [])

    def estimate(self) -> None:
        """Show the expected time of the selected study's missing measurements, by equal ones that are stored."""
        file, state = self._selected, self._state
        if file is None or state is None or state.request or state.trouble or not state.missing:
            return
        missing, hardware = state.missing, self._workbench.hardware_of(self._workbench.machines.chosen)

        def answer(seconds: dict[str, list[float | None]]) -> None:
            self._estimates[file] = estimate_text(seconds, state)
            if file == self._selected:
                self._show_estimate(file)

        self._view.clear_message()
        self._workbench.store.ask(
            lambda store: expected_seconds(missing, store.unit_seconds([run.spec for run in missing], hardware)),
            answer,
            self._view.show_error,
        )

    def run(self) -> None:
        """Queue all measurements of runs and sweep that are neither stored nor queued, after a question if they take
        much time, memory or disk."""
        file, study = self._selected, self._catalogue.bound_study(self._selected)
        if file is None or study is None or self._launching:
            return
        self._view.clear_message()
        choice, queued, title = (
            self._view.launch.options.choice(),
            self._workbench.jobs.queued_runs,
            self._catalogue.entries[file].title,
        )
        environment, machines = self._catalogue.environment, self._workbench.machines.chosen
        hardware = self._workbench.hardware_of(machines)

        def question(store: Any) -> tuple[StudyState, Launched] | TaskCodeError:
            options = replace(choice, machines=machines, queued=run_hashes(queued), hardware=hardware)

            def read_and_launch() -> tuple[StudyState, Launched]:
                expansion = expansion_of(study, labelled(study) if study.models else ())
                state = read_state(expansion, store, environment, options.queued, choice.samples)
                return state, launch(study, options, store)

            return or_refusal(read_and_launch)

        def answer(result: tuple[StudyState, Launched] | TaskCodeError) -> None:
            if isinstance(result, TaskCodeError):
                self._launching = False
                if ask_consent(result, self._view):
                    self.run()
                return
            state, launched = result
            self._catalogue.forget_expansion(file)
            self._catalogue.set_state(file, state)

            def submit() -> None:
                self._launching = False
                if launched.job is not None:
                    self._submit(file, launched.job, title, machines)
                if study.latency is not None and state.points_missing and not self._is_timing(study):
                    self._submit(file, LatencyJob(spec=study.latency, stored=state.timed or {}), f"{title}: products")
                self._view.launch.options.withdraw_consent()
                self._view.show_notice(launch_text(state, launched.pending))
                self._read_current()

            def declined() -> None:
                self._launching = False
                runs = run_hashes(launched.pending)  # `launch` has stored them as queued
                self._workbench.store.write(lambda store: store.end_runs(runs, "cancelled"), self._view.show_error)

            if launched.job is None:
                submit()
            else:
                self._question.before(launched.job, submit, declined=declined)

        def refused(text: str) -> None:
            self._launching = False
            self._view.show_error(text)

        self._launching = True
        self._workbench.store.ask(question, answer, refused)

    def submit(self) -> None:
        """Submit the selected study's missing measurements to a cluster's queue."""
        file, state = self._selected, self._state
        if file is None or state is None or state.request or state.trouble:
            return
        self._view.clear_message()
        slurm = self._view.ask_submission(self._slurm)
        if slurm is None:
            return
        self._slurm, missing, options = slurm, state.missing, self._view.launch.options.choice()
        try:
            parse_settings([slurm] if slurm else [])
        except WinaError as error:
            self._view.show_error(str(error))
            return
        folder = self._catalogue.data_folder(file)
        words = [str(file), *([f"--slurm={slurm}"] if slurm else []), *([f"--data-folder={folder}"] if folder else [])]
        words += ["--log-samples"] if options.samples else []
        words += ["--confirm-run-unsafe-code"] if options.run_model_code else []

        def answer(code: dict[str, str] | TaskCodeError) -> None:
            if isinstance(code, TaskCodeError) and not ask_consent(code, self._view):
                return
            self._view.launch.options.withdraw_consent()
            self._view.show_notice("Submitting the study…")
            self._arrays.submit(words)

        self._workbench.store.ask(lambda _: or_refusal(lambda: task_code(missing)), answer, self._view.show_error)

    def pause(self) -> None:
        for entry in self._measuring(self._selected):
            if entry.phase in ("queued", "running"):
                self._workbench.pause(entry.id)

    def resume(self) -> None:
        for entry in self._measuring(self._selected):
            if entry.phase == "paused":
                self._workbench.resume(entry.id)

    def cancel(self) -> None:
        """Cancel the selected study's jobs; stored results stay."""
        for entry in self._measuring(self._selected):
            self._workbench.cancel(entry.id)

    def _submit(self, file: Path, job: Job, title: str, machines: tuple[str, ...] | None = None) -> None:
        job_id = self._workbench.submit(job, title, machines)
        self._files[job_id] = file
        self._on_job(file)

    @property
    def _active_files(self) -> frozenset[Path]:
        """Return the files of the studies with active jobs."""
        return frozenset(self._files[entry.id] for entry in self._workbench.jobs.active if entry.id in self._files)

    def _measuring(self, file: Path | None) -> list[JobEntry]:
        """Return the active jobs that measure a study."""
        return [entry for entry in self._workbench.jobs.active if self._files.get(entry.id) == file]

    def _is_timing(self, study: StudySpec) -> bool:
        jobs = [entry.job for entry in self._workbench.jobs.active]
        return any(isinstance(job, LatencyJob) and job.spec == study.latency for job in jobs)

    def show_results(self) -> None:
        study = self._catalogue.bound_study(self._selected)
        if study is not None:
            self.results_requested.emit(study)

    def report(self, folder: Path) -> None:
        file, study = self._selected, self._catalogue.bound_study(self._selected)
        if file is not None and study is not None:
            self._view.show_notice("Writing the report…")
            self._reports.write(file, study, folder)

    def _on_listed(self) -> None:
        catalogue = self._catalogue
        if self._selected not in catalogue.entries:
            catalogue.selected = next(iter(catalogue.entries), None)
        self._view.list.show_list(list(catalogue.entries.values()), self._selected)
        self._show_active()
        for file, state in catalogue.states.items():
            if file in catalogue.entries:
                self._view.show_state(file, state)
        if self._shown_study != self._selected_study():  # showing the same again would withdraw the consent
            self._show_selected()
        self._read_states()

    def _on_mapped(self) -> None:
        self._estimates.clear()
        self._show_selected()
        self._read_states()

    def _on_state(self, file: Path) -> None:
        self._view.show_state(file, self._catalogue.states[file])
        if file == self._selected:
            self._show_progress()

    def _on_machines(self) -> None:
        self._estimates.clear()  # other machines take other times
        self._show_selected()
        self._read_states()

    def _read_states(self) -> None:
        if self._visible:
            self._catalogue.read_states()

    def _read_current(self) -> None:
        if self._visible:
            self._catalogue.read_states_of(self._active_files.union([self._selected] if self._selected else []))

    def _selected_study(self) -> tuple[GalleryEntry | None, list[Role]]:
        file = self._selected
        if file is None or file not in self._catalogue.entries:  # one that was just opened is not read yet
            return None, []
        entry = replace(self._catalogue.entries[file], study=self._catalogue.study(file))
        return entry, self._catalogue.open_roles(file)

    def _show_selected(self) -> None:
        file = self._selected
        self._shown_study = entry, roles = self._selected_study()
        self._view.show_study(entry, removable=self._catalogue.is_own(file))
        if file is None or entry is None:
            return
        self._view.launch.show_roles(roles)
        study = self._catalogue.entries[file].study
        file_folder = study.evaluation.data_folder if study else None
        self._view.launch.show_data(self._catalogue.data_folder(file), file_folder or "")
        self._view.show_state(file, self._state)
        self._show_estimate(file)
        self._view.show_report(self._reports.pages.get(file))
        self._show_progress()

    def _show_active(self) -> None:
        self._view.list.show_active(self._active_files)

    def _show_progress(self) -> None:
        state = self._state or StudyState()
        self._view.show_progress(progress(state, self._measuring(self._selected)))

    def _show_estimate(self, file: Path) -> None:
        self._view.launch.show_estimate(self._estimates.get(file, ""))

    def _on_job(self, file: Path) -> None:
        self._show_active()
        if file == self._selected:
            self._show_progress()

    def _on_job_ended(self, job_id: str) -> None:
        file = self._files.get(job_id)
        if file is None:
            self._on_results()  # it may have measured some of a study's runs
            return
        entry = self._workbench.jobs[job_id]
        if entry.error:
            self._view.show_error(entry.failure, retry=partial(self._workbench.retry, entry.id))
        elif entry.phase == "cancelled":
            self._view.show_notice("The study was cancelled; finished measurements are stored.")
        self._estimates.pop(file, None)
        self._read_states()
        self._on_job(file)

    def _on_results(self) -> None:
        if not self._pause.isActive():
            self._pause.start()

    def _on_report(self, file: Path) -> None:
        page = self._reports.pages[file]
        self._view.clear_message()
        self._view.show_saved(page, f"{page.name}, and the same as Markdown")
        if file == self._selected:
            self._view.show_report(page)
