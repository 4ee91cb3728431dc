"""Controller of the Playground's server: start, stop, and prompts that go to it."""

import time
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.pages.playground.form_state import PlaygroundSettings
from wina_app.pages.playground.server_panel import ServerPanel
from wina_app.services.model_server import ModelServer, ServerState
from wina_app.services.server_answer import ServerAnswer
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import plural
from wina_core.errors import WinaError
from wina_core.files.user_file import read_key
from wina_core.jobs import CompletionFinished, Done, Failed, Progress, Started
from wina_core.jobs.completion import Completion
from wina_core.jobs.hosted import ServeJob
from wina_core.records.completions import CompletionEnd, CompletionToken
from wina_core.specs.generation import CompletionSpec


def status_text(state: ServerState) -> str:
    """Return the text of the window's status line; empty while no server runs."""
    return f"Serving {Path(state.folder).name}" if state.folder else ""


def state_text(state: ServerState) -> str:
    """Return the status line of a server."""
    if not state.folder:
        return "No server runs."
    if state.stopping:
        return "Finishing the last answer…"
    if state.listening is None:
        return f"Loading {state.folder}…"
    return f"{state.listening.address}, {counts_text(state)}"


def counts_text(state: ServerState) -> str:
    """Describe what a server has answered."""
    counts = [plural(state.requests, "requests", "request")]
    if state.refused:
        counts.append(f"{state.refused} refused")
    if state.rate is not None:
        counts.append(f"{state.rate:,.1f} tokens/s")
    return ", ".join(counts)


_UNKNOWN = -1
"""Id of a token of which only the text is known."""
_ENDS: dict[str, CompletionEnd] = {"stop": "end", "length": "length"}


class ServedCompletion(QObject):
    """Completion made of an answer's pieces, which are its tokens without probabilities; deleted after its end."""

    token = Signal(object)
    ended = Signal(str)
    """The sentence of a failure, or nothing."""

    def __init__(self, answer: ServerAnswer, title: str, parent: QObject) -> None:
        super().__init__(parent)
        self.completion = Completion(CompletionSpec(), title=title)
        self.stop = answer.stop
        self._last = time.perf_counter()
        answer.piece.connect(self._on_piece)
        answer.ended.connect(self._on_ended)
        self.ended.connect(self.deleteLater)

    def _on_piece(self, text: str) -> None:
        last, self._last = self._last, time.perf_counter()
        first = not self.completion.tokens  # the number of tokens that its pass read is unknown
        token = CompletionToken(
            id=_UNKNOWN, text=text, log_probability=None, read=0 if first else 1, seconds=self._last - last
        )
        self.completion.tokens.append(token)
        self.token.emit(token)

    def _on_ended(self, reason: str, error: str) -> None:
        end = _ENDS.get(reason, "stopped")
        self.completion.ended = CompletionFinished(job_id="", configuration=0, end=end, prompt_tokens=0)
        self.ended.emit(error)


_PORT = 8000
_ROUTES = {False: "/completions", True: "/chat/completions"}


class ServerController(QObject):
    """Owner of the server of one model, which is a job of the window while it runs."""

    def __init__(self, workbench: Workbench, view: ServerPanel, server: ModelServer) -> None:
        super().__init__()
        self._workbench, self._view, self._server = workbench, view, server
        self._job = ServeJob(folder="", port=_PORT)
        """The last one."""
        self._key: str | None = None
        self._state, self.job_id = ServerState(), ""
        server.changed.connect(self._show)
        server.failed.connect(self._on_failed)
        workbench.stopped.connect(server.leave)
        self._show()

    @property
    def runs(self) -> bool:
        """Return whether a server runs, perhaps before it accepts requests."""
        return bool(self._server.state.folder)

    @property
    def name(self) -> str:
        """Return the name of the served model; empty until requests are accepted."""
        listening = self._server.state.listening
        return "" if listening is None else listening.model

    @property
    def chat(self) -> bool:
        listening = self._server.state.listening
        return listening is not None and listening.chat

    def open(self) -> None:
        """Ask which model to serve, the open one first."""
        source = self._workbench.workspace.source
        folder = self._job.folder if source is None else source.location
        self._view.ask(self._job.model_copy(update={"folder": folder}))

    def start(self, job: ServeJob) -> None:
        """Start the server, unless one runs; `ModelServer.failed` says why it cannot."""
        if self.runs:
            return
        self._job = job
        try:
            self._key = read_key(Path(job.key_file).expanduser() if job.key_file else None)
        except WinaError as error:
            self._server.failed.emit(str(error))
            return
        title = f"Serve: {Path(job.folder).name or job.folder}"
        self.job_id = self._workbench.host(job, title, self._server.stop)
        # No engine runs the job, so that nobody else sends its events.
        self._workbench.jobs.apply(Started(job_id=self.job_id))
        self._server.start(job, self.job_id)

    def stop(self) -> None:
        if self.runs:
            self._workbench.cancel(self.job_id)

    def answer(self, choice: PlaygroundSettings) -> ServerAnswer:
        """Send a prompt to the server, which must accept requests."""
        listening = self._server.state.listening
        assert listening is not None
        chat = choice.chat and listening.chat
        prompt = {"messages": [{"role": "user", "content": choice.prompt}]} if chat else {"prompt": choice.prompt}
        body: dict[str, Any] = {
            "model": listening.model,
            "max_tokens": choice.new_tokens,
            "temperature": choice.sampling.temperature,
            "top_p": choice.sampling.top_p,
            "seed": choice.sampling.seed,
            **prompt,
        }
        return ServerAnswer(listening.address + _ROUTES[chat], body, self._key, self)

    def _show(self) -> None:
        before, state = self._state, self._server.state
        self._state = state
        self._view.show_server(
            state_text(state),
            running=bool(state.folder),
            ready=state.listening is not None and not state.stopping,
        )
        if state.folder:
            self._report(state_text(state))
        elif before.folder:
            self._report(counts_text(before))
            self._workbench.jobs.apply(Done(job_id=self.job_id))
        if state.listening is not None and before.listening is None and self._workbench.workspace.source is None:
            self._view.choose_server()  # without an open model, prompts can go nowhere else

    def _report(self, text: str) -> None:
        self._workbench.jobs.apply(Progress(job_id=self.job_id, done=0, total=None, unit="", metric=text))

    def _on_failed(self, reason: str) -> None:
        if self.runs:
            self._workbench.jobs.apply(Failed(job_id=self.job_id, error=reason))
