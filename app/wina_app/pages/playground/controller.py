"""Controller of the Playground: complete a prompt by the dense and by a sparse model."""

from PySide6.QtCore import QObject, QTimer

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import waiting_text
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.pages.playground.response_pane import SIDES, Side, divergence_text, figures
from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion
from wina_app.style.number_format import fraction
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Event, GenerateJob, Token
from wina_core.jobs.completion import Completion, completion_of, first_difference
from wina_core.records.completions import StoredCompletion
from wina_core.specs import NO_ROTATION, MethodSpec, RotationSpec
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.run_labels import model_label

SETTLE_MS = 200
"""Pause before the sparse side restarts after a change: a slider passes many values."""
COUNT_MS = 100
"""Pause between updates of the read-outs while tokens arrive."""
MAX_PROMPTS = 20
"""Most prompts remembered."""


class PlaygroundController(QObject):
    """Runner of one job at a time. A change of the sparse setting restarts the sparse side alone."""

    def __init__(self, workbench: Workbench, view: PlaygroundPage) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self._job_id: str | None = None
        self._question = ProductQuestion(workbench, view)
        self._sides: tuple[Side, ...] = ()
        """Sides of the job's configurations."""
        self._last_job: GenerateJob | None = None
        """Last job; its last configuration is the sparse one, and restarts when that changes."""
        self._completions: dict[Side, Completion] = {}
        self._difference: int | None = None
        self._stopped_by_user = False
        """True once the user has stopped the job."""
        self._reused: CompletionSpec | None = None
        """Settings of a stored completion that are used again."""
        self._plan: SparsityPlan | None = None
        """Plan of that completion, in place of the Sparsity page's."""
        self._has_tokens = False
        """True once the job's first token has arrived."""
        self._settling = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settling.timeout.connect(self.restart)
        self._counting = QTimer(self, singleShot=True, interval=COUNT_MS)
        self._counting.timeout.connect(self._show_numbers)
        self._workspace.model_changed.connect(self._on_model_changed)
        self._workspace.rotation_changed.connect(self._show_choices)
        self._workspace.method_changed.connect(self._show_choices)
        self._workspace.plan_changed.connect(self._show_plan)
        self._workspace.quantization_settled.connect(self._on_quantization_changed)
        workbench.streamed.connect(self._on_streamed)
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.ended.connect(self._on_job_ended)
        view.changed.connect(self.change)
        view.visible_changed.connect(lambda visible: self.change() if visible else None)  # the plan may be another
        view.primary_triggered.connect(self.generate)
        view.stop_requested.connect(self.stop)
        view.history.completion_chosen.connect(self.show_stored)
        view.history.settings_chosen.connect(self.use)
        self._view.form.show_prompts(workbench.settings.prompts)
        self._on_model_changed()

    @property
    def completions(self) -> dict[Side, Completion]:
        return self._completions

    def change(self) -> None:
        """Restart the sparse side if its setting changed; other settings apply to the next prompt."""
        self._show_action()
        last_job = self._last_job
        same = last_job is not None and last_job.model == self._workspace.source  # quantized as it was, too
        if last_job is not None and same and last_job.configurations[-1] != self._chosen_sparse():
            self._settling.start()
        else:
            self._settling.stop()

    def generate(self) -> None:
        """Complete the prompt on both sides."""
        source, form = self._workspace.source, self._view.form
        if source is None or self._reason():
            return
        self._view.clear_message()
        configurations = {"dense": CompletionSpec(), "sparse": self._chosen_sparse()}
        job = form.job(source, tuple(configurations.values()))
        if job.store:
            others = (prompt for prompt in self._workbench.settings.prompts if prompt != job.prompt)
            self._workbench.settings.prompts = [job.prompt, *others][:MAX_PROMPTS]
            form.show_prompts(self._workbench.settings.prompts)
        self._stopped_by_user = False

        def start() -> None:
            for side in SIDES:
                self._begin(side, configurations[side])
            self._send(job)

        self._question.before(job, start)

    def restart(self) -> None:
        """Complete the last prompt again on the sparse side; the dense side continues."""
        self._settling.stop()
        if self._last_job is None or self._workspace.source is None:
            return
        sparse = self._last_job.model_copy(update={"configurations": (self._chosen_sparse(),)})
        self._question.before(sparse, self._restart, declined=self._explain_waiting, silent=True)

    def _explain_waiting(self) -> None:
        self._view.show_notice(
            "This setting needs a rotation or calibration that takes a while; press Generate to compute it."
        )

    def _restart(self) -> None:
        if self._last_job is None:
            return
        self._view.clear_message()
        sparse, dense = self._chosen_sparse(), self._completions.get("dense")
        configurations = [sparse]
        if dense is None:
            configurations.insert(0, CompletionSpec())
            self._begin("dense", configurations[0])
        elif not dense.is_whole and not self._stopped_by_user:
            # The running job ends: its dense side continues in the new one, after the tokens that it has.
            configurations.insert(0, CompletionSpec(prefix=dense.ids))
            dense.ended = None
        self._begin("sparse", sparse)
        store = self._view.form.store.isChecked()
        self._send(self._last_job.model_copy(update={"configurations": tuple(configurations), "store": store}))

    def show_stored(self, stored: StoredCompletion) -> None:
        """Show a stored completion, and the dense one of its prompt, in place of the last ones."""
        self.stop()
        self._job_id, self._last_job, self._difference = None, None, None
        record = stored.record
        completions = [completion_of(entry) for entry in (record, stored.dense) if entry is not None]
        self._completions = {
            "dense" if completion.spec.is_dense else "sparse": completion for completion in completions
        }
        for side in SIDES:
            self._view.show_completion(side, self._completions.get(side))
        self._view.show_waiting("")
        self._show_numbers()
        self._show_action()

    def use(self, stored: StoredCompletion) -> None:
        """Put the settings of a stored completion into the form; the next prompt takes them."""
        point, form, summary = stored.record.point, self._view.form, self._workspace.summary
        spec = point.configuration
        if not spec.is_dense and summary is not None:
            try:
                plan = spec.plan.for_layout(summary.layout)
            except WinaError as error:
                self._view.show_error(str(error))
                return
            budget = spec.plan.budget
            # The form has whole percents: another budget is kept as a plan.
            by_plan = isinstance(spec.plan, SparsityPlan) or fraction(round(100 * budget)) != budget
            self._plan = plan if by_plan and plan != self._workspace.plan else None
            self._reused = spec
            self._offer(spec.rotation, spec.method)
            form.show_sparsity(budget, by_plan=by_plan)
        form.show_point(point)
        self._view.type_prompt()
        if point.model != self._workspace.source:
            self._view.show_notice(
                f"These settings belong to a completion by {model_label(point.model)}, not by the open model."
            )

    def stop(self) -> None:
        self._settling.stop()
        self._stopped_by_user = True
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)

    def _chosen_sparse(self) -> CompletionSpec:
        return self._view.form.sparse_spec(self._plan or self._workspace.plan)

    def _begin(self, side: Side, spec: CompletionSpec) -> None:
        self._completions[side] = Completion(spec)
        self._difference = None
        self._view.show_completion(side, self._completions[side])
        self._show_numbers()

    def _send(self, job: GenerateJob) -> None:
        """Start a job in place of what is being generated."""
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)
        self._has_tokens = False
        self._last_job = job
        self._sides = tuple("dense" if spec.is_dense else "sparse" for spec in job.configurations)
        self._job_id = self._workbench.submit(job, f"Generate: {job.configurations[-1].label}")
        self._show_waiting(self._workbench.jobs[self._job_id])
        self._show_action()

    def _on_streamed(self, event: Event) -> None:
        if not isinstance(event, Token | CompletionFinished) or event.job_id != self._job_id:
            return  # tokens of a job that was cancelled may still arrive
        side = self._sides[event.configuration]
        completion = self._completions[side]
        if isinstance(event, CompletionFinished):
            completion.ended = event
            self._show_numbers()
            return
        if not self._has_tokens:
            self._has_tokens = True
            self._view.show_waiting("")
        completion.tokens.append(event)
        self._view.add_token(side, event)
        if not self._counting.isActive():
            self._counting.start()

    def _show_numbers(self) -> None:
        """Show both sides' read-outs and their divergence."""
        self._counting.stop()
        dense, sparse = self._completions.get("dense"), self._completions.get("sparse")
        self._view.show_figures("dense", figures(dense, sparse))
        self._view.show_figures("sparse", figures(sparse))
        # Completions only grow, so that the first difference stays.
        if self._difference is None and dense is not None and sparse is not None:
            self._difference = first_difference(dense, sparse)
        self._view.show_divergence(self._difference, divergence_text(dense, sparse, self._difference))

    def _on_job_changed(self, job_id: str) -> None:
        if job_id == self._job_id:
            entry = self._workbench.jobs[job_id]
            if self._has_tokens and entry.started is None:
                self._start_over()
            self._show_waiting(entry)

    def _start_over(self) -> None:
        """Drop the tokens of a paused job that its engine has released, which computes them again."""
        self._has_tokens = False
        configurations = self._last_job.configurations if self._last_job is not None else ()
        for side, spec in zip(self._sides, configurations, strict=True):
            completion = self._completions[side]
            del completion.tokens[len(spec.prefix) :]  # those of the prefix were given to the job
            completion.ended = None
            self._view.show_completion(side, completion)
        self._difference = None
        self._show_numbers()

    def _show_waiting(self, entry: JobEntry) -> None:
        if self._has_tokens:
            return
        if waiting := waiting_text(entry, self._job_ahead(entry)):
            self._view.show_waiting(waiting)
        elif entry.active:
            doing = entry.metric or entry.unit or "Preparing the model"
            share = "" if entry.fraction is None else f" {100 * entry.fraction:.0f} %"
            self._view.show_waiting(doing + share)

    def _job_ahead(self, entry: JobEntry) -> str:
        """Return the title of the job ahead of a waiting one; beside a light engine only an interactive job is."""
        jobs = self._workbench.jobs
        light = any(use.light for use in jobs.engines.values())
        running = [other for other in jobs.active if other is not entry and other.begun and not other.is_paused]
        return next((other.title for other in running if other.is_interactive or not light), "")

    def _on_job_ended(self, job_id: str) -> None:
        entry = self._workbench.jobs[job_id]
        if job_id == self._job_id:
            self._job_id = None
            self._show_action()
            self._view.show_waiting("")
            self._close_completions()
            if entry.phase == "failed":
                self._view.show_error(entry.error)
        elif isinstance(entry.job, GenerateJob) and entry.phase == "cancelled":
            # A job of a passed setting is no news. Later, since other listeners still read its entry now.
            jobs = self._workbench.jobs
            QTimer.singleShot(0, jobs, lambda: jobs.forget(job_id))

    def _close_completions(self) -> None:
        """Close completions that the ended job did not finish; drop those that never began."""
        for side, completion in list(self._completions.items()):
            if completion.prefill is None:
                del self._completions[side]
                self._view.show_completion(side, None)
            elif completion.ended is None:
                completion.ended = CompletionFinished(
                    job_id="", configuration=0, end="stopped", prompt_tokens=completion.prefill[0]
                )
        self._show_numbers()

    def _on_model_changed(self) -> None:
        self.stop()
        self._last_job, self._completions, self._difference = None, {}, None
        self._reused = self._plan = None
        for side in SIDES:
            self._view.show_completion(side, None)
        self._show_numbers()
        self._show_context()
        self._show_choices()

    def _on_quantization_changed(self) -> None:
        self.change()
        self._show_context()

    def _show_context(self) -> None:
        ready = bool(self._completions) or self._workspace.source is not None
        self._view.show_context(self._workspace.breadcrumb()[:1], ready=ready)

    def _show_choices(self) -> None:
        """Choose the other pages' method and rotation, unless the rotation has to be computed first."""
        workspace = self._workspace
        rotation = workspace.rotation if workspace.rotation_report is not None else NO_ROTATION
        self._offer(rotation, workspace.method)
        self._show_action()

    def _offer(self, *chosen: *tuple[RotationSpec, MethodSpec]) -> None:
        """Offer the choices of the model, and choose a rotation and a method."""
        self._view.form.show_choices(self._workspace, self._plan or self._workspace.plan, self._reused, chosen)
        self._view.restore_sparse_side()

    def _show_plan(self) -> None:
        self._plan = None  # an edit ends the use of a stored completion's plan
        self._view.form.show_plan(self._workspace.plan)

    def _reason(self) -> str:
        """Return why nothing can be generated now; empty where it can."""
        if self._workspace.source is None:
            return "Open a model first"
        return "" if self._view.form.prompt.toPlainText().strip() else "Type a prompt or choose an example"

    def _show_action(self) -> None:
        self._view.show_action(running=self._job_id is not None, reason=self._reason())
