"""Has a prompt answered by the dense and by a sparse model, and the sparse side anew whenever its setting changes."""

from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from wina_app.jobs.job_list import JobEntry
from wina_app.pages.playground.form_state import (
    SIDES,
    Choice,
    Offer,
    Side,
    figures,
    make_offer,
    parting,
    problem,
    recent,
)
from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.engine.protocol import CompletionFinished, Event, GenerateJob, Token
from wina_core.engine.protocol.response import Answer, first_difference
from wina_core.specs import NO_ROTATION, MethodSpec, RotationSpec
from wina_core.specs.generation import AnswerSpec

SETTLE_MS = 200
"""How long the sparse side's setting has to stay before it is answered anew: a slider passes many values."""
COUNT_MS = 100
"""How often read-outs follow the tokens, which come faster than anybody reads numbers."""


class PlaygroundView(Protocol):
    """What the controller needs of the page."""

    def choice(self) -> Choice:
        """What the controls say."""

    def show_context(self, breadcrumb: list[tuple[str, str]], ready: bool) -> None:
        """Show the header; without a model that is ready, the empty state."""

    def show_offer(self, offer: Offer, rotation: RotationSpec, method: MethodSpec) -> None:
        """Offer what the model allows, and choose these."""

    def show_prompts(self, prompts: list[str]) -> None:
        """Offer the prompts that were sent before."""

    def show_action(self, *, running: bool, reason: str) -> None:
        """What can be done now; a reason why nothing can be generated disables that."""

    def show_waiting(self, text: str) -> None:
        """Say what is done before the first token comes; empty once it has."""

    def show_answer(self, side: Side, answer: Answer | None) -> None:
        """Show a side's answer as far as it is there; None clears it."""

    def add_token(self, side: Side, token: Token) -> None:
        """Append a token to the answer that is shown."""

    def show_figures(self, side: Side, figures: dict[str, str]) -> None:
        """Show a side's read-outs."""

    def show_parting(self, at: int | None, text: str) -> None:
        """Mark the token where the answers part, and say so."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

    def clear_message(self) -> None:
        """Take the inline message away."""


class PlaygroundController(QObject):
    """One job at a time. A sparse setting that changes ends it; the next one goes on with the dense answer where that
    was, and begins the sparse one anew."""

    def __init__(self, workbench: Workbench, view: PlaygroundView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._workspace = workbench.workspace
        self._job_id: str | None = None
        self._sides: tuple[Side, ...] = ()
        """Of the job's arms."""
        self._asked: GenerateJob | None = None
        """What was last sent, the sparse arm last. Its prompt is answered anew when that arm changes."""
        self._answers: dict[Side, Answer] = {}
        self._difference: int | None = None
        self._halted = False
        """The user stopped it: what is there stays as it is."""
        self._flows = False
        """The job's first token is there."""
        self._settling = QTimer(self)
        self._settling.setSingleShot(True)
        self._settling.setInterval(SETTLE_MS)
        self._settling.timeout.connect(self.restart)
        self._counting = QTimer(self)
        self._counting.setSingleShot(True)
        self._counting.setInterval(COUNT_MS)
        self._counting.timeout.connect(self._show_numbers)
        self._workspace.model_changed.connect(self._on_model_changed)
        self._workspace.rotation_changed.connect(self._show_offer)
        self._workspace.method_changed.connect(self._show_offer)
        self._workspace.plan_changed.connect(self._show_plan)
        workbench.streamed.connect(self._on_streamed)
        workbench.jobs.changed.connect(self._on_job_changed)
        workbench.jobs.ended.connect(self._on_job_ended)
        self._view.show_prompts(workbench.settings.prompts)
        self._on_model_changed()

    @property
    def answers(self) -> dict[Side, Answer]:
        """What was answered last, by side."""
        return self._answers

    # ---- what the user does ------------------------------------------------------------------------------------

    def set_visible(self, visible: bool) -> None:
        """The plan may have been edited meanwhile."""
        if visible:
            self.change()

    def change(self) -> None:
        """A control changed: the sparse side's setting counts at once, all else with the next prompt."""
        self._show_action()
        if self._asked is not None and self._asked.arms[-1] != self._chosen_sparse():
            self._settling.start()
        else:
            self._settling.stop()

    def generate(self) -> None:
        """Answer the prompt on both sides."""
        source, choice = self._workspace.source, self._view.choice()
        if source is None or problem(choice, self._workspace):
            return
        self._view.clear_message()
        settings = self._workbench.settings
        settings.prompts = recent(settings.prompts, choice.prompt)
        self._view.show_prompts(settings.prompts)
        arms = {"dense": AnswerSpec(), "sparse": self._chosen_sparse()}
        self._halted = False
        job = GenerateJob(
            model=source,
            prompt=choice.prompt,
            chat=choice.chat,
            new_tokens=choice.new_tokens,
            sampling=choice.sampling,
            arms=tuple(arms.values()),
        )
        for side in SIDES:
            self._begin(side, arms[side])
        self._send(job)

    def restart(self) -> None:
        """Answer the last prompt anew on the sparse side; the dense one is kept, and goes on if it was at it."""
        self._settling.stop()
        if self._asked is None or self._workspace.source is None:
            return
        self._view.clear_message()
        sparse, dense = self._chosen_sparse(), self._answers.get("dense")
        arms = [sparse]
        if dense is None:
            arms.insert(0, AnswerSpec())
            self._begin("dense", arms[0])
        elif not dense.is_whole and not self._halted:
            arms.insert(0, AnswerSpec(begun=dense.ids))
            dense.ended = None
        self._begin("sparse", sparse)
        self._send(self._asked.model_copy(update={"arms": tuple(arms)}))

    def stop(self) -> None:
        """Leave the answers as they are."""
        self._settling.stop()
        self._halted = True
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)

    # ---- sending -------------------------------------------------------------------------------------------------

    def _chosen_sparse(self) -> AnswerSpec:
        return self._view.choice().sparse(self._workspace.plan)

    def _begin(self, side: Side, spec: AnswerSpec) -> None:
        self._answers[side] = Answer(spec)
        self._difference = None
        self._view.show_answer(side, self._answers[side])
        self._show_numbers()

    def _send(self, job: GenerateJob) -> None:
        """Begin a job in the place of the one that runs, if one does."""
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)
        self._flows = False
        self._asked = job
        self._sides = tuple("dense" if arm.is_dense else "sparse" for arm in job.arms)
        self._job_id = self._workbench.submit(job, tr("Generate: {arm}", arm=job.arms[-1].label))
        self._show_action()

    # ---- what comes back ------------------------------------------------------------------------------------------

    def _on_streamed(self, event: Event) -> None:
        if not isinstance(event, Token | CompletionFinished) or event.job_id != self._job_id:
            return
        side = self._sides[event.arm]
        answer = self._answers[side]
        if isinstance(event, CompletionFinished):
            answer.ended = event
            self._show_numbers()
            return
        if not self._flows:
            self._flows = True
            self._view.show_waiting("")
        answer.tokens.append(event)
        self._view.add_token(side, event)
        if not self._counting.isActive():
            self._counting.start()

    def _show_numbers(self) -> None:
        """What the tokens add up to, and where the sides part."""
        self._counting.stop()
        for side in SIDES:
            self._view.show_figures(side, figures(self._answers.get(side)))
        dense, sparse = self._answers.get("dense"), self._answers.get("sparse")
        if self._difference is None and dense is not None and sparse is not None:
            self._difference = first_difference(dense, sparse)
        self._view.show_parting(self._difference, parting(dense, sparse, self._difference))

    def _on_job_changed(self, job_id: str) -> None:
        if job_id == self._job_id:
            self._show_waiting(self._workbench.jobs[job_id])

    def _show_waiting(self, entry: JobEntry) -> None:
        if self._flows:
            return
        if entry.state == "queued":
            ahead = [
                other for other in self._workbench.jobs.active if other.id != entry.id and other.state == "running"
            ]
            self._view.show_waiting(tr("Waiting for: {job}", job=ahead[0].title) if ahead else tr("Starting"))
        elif entry.active:
            doing = entry.metric or entry.unit or tr("Preparing the model")
            share = "" if entry.fraction is None else f" {100 * entry.fraction:.0f} %"
            self._view.show_waiting(doing + share)

    def _on_job_ended(self, job_id: str) -> None:
        entry = self._workbench.jobs[job_id]
        if job_id == self._job_id:
            self._job_id = None
            self._show_action()
            self._view.show_waiting("")
            self._close()
            if entry.state == "failed":
                self._view.show_error(entry.error)
        elif isinstance(entry.job, GenerateJob) and entry.state == "cancelled":
            jobs = self._workbench.jobs  # one whose setting was passed over is no news; others still look at it now
            QTimer.singleShot(0, jobs, lambda: jobs.forget(job_id))

    def _close(self) -> None:
        """A job may end without a word on its answers: one that never began is none, the others go no further."""
        for side, answer in list(self._answers.items()):
            if answer.prefill is None:
                del self._answers[side]
                self._view.show_answer(side, None)
            elif answer.ended is None:
                answer.ended = CompletionFinished(job_id="", arm=0, end="stopped", prompt_tokens=answer.prefill[0])
        self._show_numbers()

    # ---- what other pages do ----------------------------------------------------------------------------------------

    def _on_model_changed(self) -> None:
        self.stop()
        self._asked, self._answers, self._difference = None, {}, None
        for side in SIDES:
            self._view.show_answer(side, None)
        self._show_numbers()
        self._view.show_context(self._workspace.breadcrumb()[:1], self._workspace.source is not None)
        self._show_offer()

    def _show_offer(self) -> None:
        """What other pages chose is chosen here too, but for a rotation that would have to be computed first."""
        workspace = self._workspace
        rotation = workspace.rotation if workspace.rotation_report is not None else NO_ROTATION
        self._view.show_offer(make_offer(workspace), rotation, workspace.method)
        self._show_action()

    def _show_plan(self) -> None:
        choice = self._view.choice()
        self._view.show_offer(make_offer(self._workspace), choice.rotation, choice.method)

    def _show_action(self) -> None:
        reason = problem(self._view.choice(), self._workspace)
        self._view.show_action(running=self._job_id is not None, reason=reason)
