"""Controller of the Playground: complete a prompt by the dense and by a sparse model."""

from dataclasses import replace

from PySide6.QtCore import QObject, QTimer

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import waiting_text
from wina_app.pages.playground.form_state import (
    SIDES,
    PlaygroundChoices,
    PlaygroundSettings,
    Side,
    divergence_text,
    figures,
    make_choices,
    problem,
    recent,
)
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.pages.playground.server_controller import ServedCompletion, ServerController
from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion
from wina_app.style.number_format import fraction
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Event, GenerateJob, Token
from wina_core.jobs.completion import Completion, completion_of, first_difference
from wina_core.records.completions import CompletionToken, StoredCompletion
from wina_core.specs import NO_ROTATION
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.run_labels import model_label

SETTLE_MS = 200
"""Pause before the sparse side restarts after a change: a slider passes many values."""
COUNT_MS = 100
"""Pause between updates of the read-outs while tokens arrive."""


class PlaygroundController(QObject):
    """Runner of one job at a time. A change of the sparse setting restarts the sparse side alone."""

    def __init__(self, workbench: Workbench, view: PlaygroundPage, server: ServerController | None = None) -> None:
        super().__init__()
        self._server = server
        self._answer: ServedCompletion | None = None
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
        self._view.form.show_prompts(workbench.settings.prompts)
        self._on_model_changed()

    @property
    def completions(self) -> dict[Side, Completion]:
        return self._completions

    def set_visible(self, visible: bool) -> None:
        """Read the plan again when the page is shown."""
        if visible:
            self.change()

    def follow_server(self) -> None:
        """Show the form while a server runs, even without an open model."""
        if self._workspace.source is None:
            self._show_context()
            self._show_choices()
        self._show_action()

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
        source, choice = self._workspace.source, self._view.form.choice()
        if problem(choice, has_model=source is not None):
            return
        self._view.clear_message()
        if choice.to_server and self._server is not None and self._server.name:
            self._send_to_server(self._server, choice)
            return
        if source is None:
            return
        settings = self._workbench.settings
        if choice.store:
            settings.prompts = recent(settings.prompts, choice.prompt)
            self._view.form.show_prompts(settings.prompts)
        configurations = {"dense": CompletionSpec(), "sparse": self._chosen_sparse()}
        self._stopped_by_user = False
        job = GenerateJob(
            model=source,
            prompt=choice.prompt,
            chat=choice.chat,
            new_tokens=choice.new_tokens,
            sampling=choice.sampling,
            configurations=tuple(configurations.values()),
            store=choice.store,
        )

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
        store = self._view.form.choice().store
        self._send(self._last_job.model_copy(update={"configurations": tuple(configurations), "store": store}))

    def show_stored(self, stored: StoredCompletion) -> None:
        """Show a stored completion, and the dense one of its prompt, in place of the last ones."""
        self._discard_completions()
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

    def _discard_completions(self) -> None:
        self.stop()
        self._job_id, self._last_job, self._difference = None, None, None

    def _send_to_server(self, server: ServerController, choice: PlaygroundSettings) -> None:
        """Show a server's completion in place of the last ones."""
        self._discard_completions()
        title = f"Server: {server.name}"
        self._answer = answer = ServedCompletion(server.answer(choice), title, self)
        self._completions = {"sparse": answer.completion}
        for side in SIDES:
            self._view.show_completion(side, self._completions.get(side))
        self._view.show_waiting("Waiting for the server")
        answer.token.connect(self._on_served)
        answer.ended.connect(self._on_server_ended)
        self._show_numbers()
        self._show_action()

    def _on_served(self, token: CompletionToken) -> None:
        self._view.show_waiting("")
        self._view.add_token("sparse", token)
        if not self._counting.isActive():
            self._counting.start()

    def _on_server_ended(self, error: str) -> None:
        self._answer = None
        self._view.show_waiting("")
        self._show_numbers()
        self._show_action()
        if error:
            self._view.show_error(error)

    def use(self, stored: StoredCompletion) -> None:
        """Put the settings of a stored completion into the form; the next prompt takes them."""
        point, choice = stored.record.point, self._view.form.choice()
        settings = replace(
            choice, prompt=point.prompt, chat=point.chat, new_tokens=point.new_tokens, sampling=point.sampling
        )
        summary, spec = self._workspace.summary, point.configuration
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
            self._view.show_choices(self._choices(), spec.rotation, spec.method)
            settings = replace(settings, method=spec.method, rotation=spec.rotation, sparsity=budget, by_plan=by_plan)
        self._view.show_settings(settings)
        if point.model != self._workspace.source:
            self._view.show_notice(
                f"These settings belong to a completion by {model_label(point.model)}, not by the open model."
            )

    def stop(self) -> None:
        self._settling.stop()
        self._stopped_by_user = True
        if self._answer is not None:
            self._answer.stop()
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)

    def _chosen_sparse(self) -> CompletionSpec:
        return self._view.form.choice().sparse_spec(self._plan or self._workspace.plan)

    def _begin(self, side: Side, spec: CompletionSpec) -> None:
        self._completions[side] = Completion(spec)
        self._difference = None
        self._view.show_completion(side, self._completions[side])
        self._show_numbers()

    def _send(self, job: GenerateJob) -> None:
        """Start a job in place of what is being generated."""
        if self._answer is not None:
            self._answer.stop()
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
        has_server = self._server is not None and self._server.runs
        ready = has_server or bool(self._completions) or self._workspace.source is not None
        self._view.show_context(self._workspace.breadcrumb()[:1], ready=ready)

    def _show_choices(self) -> None:
        """Choose the other pages' method and rotation, unless the rotation has to be computed first."""
        workspace = self._workspace
        rotation = workspace.rotation if workspace.rotation_report is not None else NO_ROTATION
        self._view.show_choices(self._choices(), rotation, workspace.method)
        self._show_action()

    def _choices(self) -> PlaygroundChoices:
        work = self._workspace
        choices = make_choices(work.summary, self._plan or work.plan, work.rotation, work.method, self._reused)
        return replace(choices, chat=self._server.chat) if self._server and work.source is None else choices

    def _show_plan(self) -> None:
        self._plan = None  # an edit ends the use of a stored completion's plan
        choice = self._view.form.choice()
        self._view.show_choices(self._choices(), choice.rotation, choice.method)

    def _show_action(self) -> None:
        reason = problem(self._view.form.choice(), has_model=self._workspace.source is not None)
        self._view.show_action(running=bool(self._job_id or self._answer), reason=reason)
