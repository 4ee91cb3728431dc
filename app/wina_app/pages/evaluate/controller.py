"""Controller of the Evaluate page: turn the choice into a study, and queue its missing runs."""

from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.jobs.job_list import run_hashes
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.services.side_process import SideProcess, stop_processes
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.shared.evaluation_choice import EvaluationChoice, build_study, rotation_choices
from wina_app.shared.product_question import ProductQuestion
from wina_app.shared.rotation_choices import ROTATION_PRESETS
from wina_app.shared.run_grid import Grid, read_grid, with_jobs
from wina_app.shared.sparse_export import SparseExport, export_problem, one_sparse
from wina_app.shared.task_consent import ask_consent, or_refusal
from wina_app.style.number_format import plural
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.jobs import EvaluateJob
from wina_core.records.imports import scored_beside
from wina_core.specs.evaluations import Scored
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import expand, save_study_file
from wina_core.studies.launch import Launched, LaunchOptions, launch
from wina_core.studies.tasks.check_runs import check_runs
from wina_core.studies.tasks.index import TaskIndex, load_index, searchable
from wina_core.studies.tasks.task_code import TaskCodeError

BUILDING = "Indexing all task names for the first time, about 20 s; you can type any name meanwhile."
_MODULE = "wina_core.compute.evaluation.index"

NO_MODEL = "Open a model first"
_SETTLE_MS = 150
_MAX_MATCHES = 50
"""Most tasks listed under the typed text."""


class TaskIndexing(QObject):
    """Loader of the index; `index` is None until `changed`, and `remark` says why."""

    changed = Signal()

    def __init__(self, store: StoreThread, command: tuple[str, ...] = own_command(_MODULE)) -> None:
        """Take the thread that reads the index file, and the command that builds it."""
        super().__init__()
        self.index: TaskIndex | None = None
        self.remark = ""
        self._store, self._command = store, command
        self._requested = False

    def ask(self) -> None:
        """Load or build the index, once."""
        if not self._requested:
            self._requested = True
            self._store.ask(lambda _store: _load_index(), self._on_loaded)

    def stop(self) -> None:
        """Stop the building process, if any."""
        stop_processes(self)

    def _on_loaded(self, index: TaskIndex | None) -> None:
        if index is None:
            self._build()
        else:
            self.index = index
            self._say("")

    def _build(self) -> None:
        process = SideProcess(self._command, parent=self)
        process.succeeded.connect(self._on_built)
        process.failed.connect(self._fail)
        self._say(BUILDING)
        process.start()

    def _on_built(self) -> None:
        def loaded(index: TaskIndex | None) -> None:
            if index is None:
                self._fail("the index could not be kept; the log has the reason")
            else:
                self._on_loaded(index)

        self._store.ask(lambda _store: _load_index(), loaded)

    def _fail(self, cause: str) -> None:
        self._requested = False  # the next query tries again
        self._say(f"The task names could not be indexed ({cause.rstrip('.')}); you can still type any name.")

    def _say(self, text: str) -> None:
        self.remark = text
        self.changed.emit()


def _load_index() -> TaskIndex | None:
    index = load_index()
    return None if index is None else searchable(index)


class EvaluateController(QObject):
    """Counter and launcher of the chosen study's runs."""

    def __init__(self, workbench: Workbench, view: EvaluatePage) -> None:
        super().__init__()
        self._tasks = TaskIndexing(workbench.store)
        self._query = ""
        self._tasks.changed.connect(self._on_index)
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self._question = ProductQuestion(workbench, view)
        self._export = SparseExport(workbench, view)
        self._study: StudySpec | None = None
        self._suits_demo: bool | None = None
        self._beside: str | None = None
        """Location of the model with imported numbers of llama-perplexity, for which its positions were chosen."""
        self._request = 0
        self._grid: Grid | None = None
        """The runs as last counted."""
        self._seen: dict[str, tuple[frozenset[str], int, bool]] = {}
        """By job, as last shown: its running runs, the number of failed ones, and whether it is paused."""
        self._submitted_ids: set[str] = set()
        self._visible = False
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settle.timeout.connect(self._count_if_visible)
        workbench.machines.changed.connect(view.tasks.options.withdraw_consent)
        self._workspace.model_changed.connect(self._on_context)
        self._workspace.rotation_changed.connect(self._on_context)
        self._workspace.plan_changed.connect(self._on_context)
        self._workspace.quantization_settled.connect(self._on_context)
        workbench.results_changed.connect(self._settle.start)
        workbench.jobs.added.connect(self._settle.start)
        workbench.jobs.requeued.connect(self._on_requeued)
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.ended.connect(self._on_job_ended)
        workbench.stopped.connect(self._settle.stop)
        workbench.stopped.connect(self._tasks.stop)
        view.changed.connect(self.change)
        view.visible_changed.connect(self.set_visible)
        view.evaluate_requested.connect(self.evaluate)
        view.save_requested.connect(self.save_study)
        view.export.folder_chosen.connect(self.export)
        view.search_requested.connect(self.search)
        self._on_context()

    def change(self) -> None:
        """Recount after the user stops typing (debounced)."""
        self._view.show_counting()
        self._settle.start()

    def choose_plan(self) -> None:
        self._view.configurations.choose_plan(self._workspace.method, self._workspace.rotation)

    def search(self, query: str) -> None:
        """Find tasks, after loading or building their index."""
        self._query = query
        if self._tasks.index is None:
            self._tasks.ask()
        else:
            self._view.tasks.search.show_matches(self._tasks.index.search(query, _MAX_MATCHES) if query else ())

    def _on_index(self) -> None:
        self._view.tasks.show_remark(self._tasks.remark)
        if self._tasks.index is not None:
            self.search(self._query)

    def set_visible(self, visible: bool) -> None:
        """Count while the page is shown, and not while it is hidden."""
        self._visible = visible
        if visible:
            self._settle.start()

    def _count_if_visible(self) -> None:
        if self._visible:
            self.count()

    def count(self) -> None:
        """Expand the study and count its stored runs."""
        study = self._make_study()
        self._study = study
        self._request += 1  # also without a study: the answer for an earlier one must not show its runs
        if study is None:
            self._grid = None
            return
        request, queued, samples = self._request, self._workbench.jobs.queued_runs, self._view.choice().samples

        def question(store: Any) -> tuple[Grid, str, Scored]:
            runs = expand(study)
            pending = store.pending(runs, samples)
            check_runs(pending)
            grid = read_grid(store, runs, pending, run_hashes(queued))
            return grid, export_problem(runs), scored_beside(store.imports(), runs[0].model)

        def answer(counted: tuple[Grid, str, Scored]) -> None:
            if request == self._request:
                self._grid, problem, scored = counted
                self._show_grid()
                self._view.export.show_reason(problem)
                self._suit_imports(study.models[0].location, scored)

        def refused(text: str) -> None:
            if request == self._request:
                self._view.show_problem(text)

        self._workbench.store.ask(question, answer, refused)

    def _show_grid(self) -> None:
        if self._grid is not None:
            self._view.show_grid(with_jobs(self._grid, self._workbench.jobs))

    def _on_job_changed(self, job_id: str) -> None:
        """Follow the runs that begin, pause and fail, not every step of their progress."""
        entry = self._workbench.jobs[job_id]
        now = entry.running, len(entry.failures), entry.phase == "paused"
        if isinstance(entry.job, EvaluateJob) and self._seen.get(job_id) != now:
            self._seen[job_id] = now
            if self._visible:
                self._show_grid()

    def evaluate(self) -> None:
        """Save the study, and queue the runs neither stored nor queued."""
        study = self._make_study()
        if study is None:
            return
        self._view.clear_message()
        choice = self._view.choice()  # read before the consent in it is withdrawn
        self._view.tasks.options.withdraw_consent()
        self._launch(study, choice)

    def _launch(self, study: StudySpec, choice: EvaluationChoice) -> None:
        queued, machines = self._workbench.jobs.queued_runs, self._workbench.machines.chosen
        hardware = self._workbench.hardware_of(machines)

        def question(store: Any) -> Launched | TaskCodeError:
            options = LaunchOptions(
                samples=choice.samples,
                run_model_code=choice.run_model_code,
                machines=machines,
                queued=run_hashes(queued),
                hardware=hardware,
            )
            # As a value: the store's thread passes on an error as text, without the code to ask about.
            return or_refusal(lambda: launch(study, options, store))

        def answer(launched: Launched | TaskCodeError) -> None:
            if isinstance(launched, Launched):
                self._submit(study, launched.job, machines)
            elif ask_consent(launched, self._view):
                self._launch(study, choice)

        self._workbench.store.ask(question, answer, self._view.show_error)

    def save_study(self, path: Path) -> None:
        """Write the study as a file for the command line."""
        study = self._make_study()
        if study is None:
            return

        def saved(_: object) -> None:
            self._view.show_saved(path, f'{path.name}; compute the same with: wina study run "{path}"')

        self._workbench.store.ask(lambda _store: save_study_file(study, path), saved, self._view.show_error)

    def export(self, folder: Path) -> None:
        """Write the one sparse model of the choice to a new folder."""
        study = self._make_study()
        if study is not None:
            self._export.export(folder, lambda _store: one_sparse(expand(study)))

    def _make_study(self) -> StudySpec | None:
        """Return the chosen study; show why there is none."""
        if self._workspace.source is None:
            self._view.show_problem(NO_MODEL)
            return None
        try:
            study = build_study(self._view.choice(), self._workspace.source, self._workspace.plan)
        except WinaError as error:
            self._view.show_problem(str(error))
            return None
        self._view.show_problem("")
        return study

    def _submit(self, study: StudySpec, job: EvaluateJob | None, machines: tuple[str, ...]) -> None:
        if job is None:
            self._view.show_notice("Every run of this study is stored or queued already.")
            return
        title = f"Evaluate {plural(len(job.runs), 'runs', 'run')}: {study.name}"

        def submit() -> None:
            self._submitted_ids.add(self._workbench.submit(job, title, machines))

        def declined() -> None:  # `launch` has stored the runs as queued
            runs = run_hashes(job.runs)
            self._workbench.store.write(lambda store: store.end_runs(runs, "cancelled"), self._view.show_error)

        self._question.before(job, submit, declined=declined)

    def _on_context(self) -> None:
        workspace = self._workspace
        self._view.show_context(workspace.breadcrumb(), has_model=workspace.source is not None)
        if workspace.source is not None:
            self._suit_model(is_demo=workspace.source.location == "demo")
        self._view.tasks.show_template(available=workspace.summary is not None and workspace.summary.chat_template)
        running = dict.fromkeys(run.spec.rotation for run in self._workbench.jobs.queued_runs)
        offered = rotation_choices(workspace.rotation, [*ROTATION_PRESETS.values(), *running])
        self._view.configurations.show_rotations(offered, workspace.rotation, workspace.summary, tuple(running))
        plan = workspace.plan
        self._view.configurations.show_plan(
            None if plan is None else plan.budget, "" if plan is None else plan.provenance
        )
        self._settle.start()

    def _suit_model(self, *, is_demo: bool) -> None:
        if is_demo != self._suits_demo:  # else the user's ticks stay for the next model
            self._suits_demo = is_demo
            self._view.suit_model(is_demo=is_demo)

    def _suit_imports(self, location: str, scored: Scored) -> None:
        """Propose the imported numbers' positions once for each model, so that the user may choose others."""
        if scored == "second_half" and location != self._beside:
            self._beside = location
            self._view.suit_imports()

    def _on_requeued(self, job_id: str) -> None:
        self._settle.start()
        if job_id in self._submitted_ids:
            self._view.clear_message()

    def _on_job_ended(self, job_id: str) -> None:
        self._settle.start()
        self._seen.pop(job_id, None)
        if job_id not in self._submitted_ids:
            return
        entry = self._workbench.jobs[job_id]
        if entry.error:
            self._view.show_error(entry.failure, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._view.show_notice("The evaluation was cancelled; finished results are stored.")
        elif entry.phase == "done":
            runs = plural(entry.runs_finished, "runs", "run")
            self._view.show_notice(f"{runs} done; see the Results page.")
