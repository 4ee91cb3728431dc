"""Controller of the Playground's server: start, stop, and prompts that go to it."""

from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject

from wina_app.pages.playground.form_state import PlaygroundSettings
from wina_app.pages.playground.server_state import counts_text, state_text
from wina_app.services.model_server import ModelServer, ServerState
from wina_app.services.server_answer import ServerAnswer
from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.files.user_file import read_key
from wina_core.jobs import Done, Failed, Progress, Started
from wina_core.jobs.hosted import ServeJob

_PORT = 8000
_ROUTES = {False: "/completions", True: "/chat/completions"}


class ServerView(Protocol):
    """The server's panel as its controller sees it."""

    def show_server(self, text: str, *, running: bool, ready: bool) -> None:
        """Show the status line, and the buttons that are of use."""

    def choose_server(self) -> None:
        """Send prompts to the server."""

    def ask(self, job: ServeJob) -> None:
        """Ask for the settings of a server."""


class ServerController(QObject):
    """Owner of the server of one model, which is a job of the window while it runs."""

    def __init__(self, workbench: Workbench, view: ServerView, server: ModelServer) -> None:
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
        """Return whether the served model has a chat template."""
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
        title = tr("Serve: {model}", model=Path(job.folder).name or job.folder)
        self.job_id = self._workbench.host(job, title, self._server.stop)
        self._workbench.jobs.apply(Started(job_id=self.job_id))
        self._server.start(job, self.job_id)

    def stop(self) -> None:
        """Stop the server."""
        if self.runs:
            self._workbench.cancel(self.job_id)

    def answer(self, choice: PlaygroundSettings) -> ServerAnswer:
        """Send a prompt; the server accepts requests."""
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
            self._view.choose_server()

    def _report(self, text: str) -> None:
        self._workbench.jobs.apply(Progress(job_id=self.job_id, done=0, total=None, unit="", metric=text))

    def _on_failed(self, reason: str) -> None:
        if self.runs:
            self._workbench.jobs.apply(Failed(job_id=self.job_id, error=reason))
