"""Controller of the Playground's server: start, stop, and prompts that go to it."""

from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject

from wina_app.pages.playground.form_state import PlaygroundSettings
from wina_app.pages.playground.server_state import ServeSettings, state_text
from wina_app.services.model_server import ModelServer
from wina_app.services.server_answer import ServerAnswer
from wina_app.services.workbench import Workbench
from wina_core.errors import WinaError
from wina_core.files.api_key import read_key

_ROUTES = {False: "/completions", True: "/chat/completions"}


class ServerView(Protocol):
    """The server's panel as its controller sees it."""

    def show_server(self, text: str, *, running: bool, ready: bool) -> None:
        """Show the status line, and the buttons that are of use."""

    def ask(self, settings: ServeSettings) -> None:
        """Ask for the settings of a server."""


class ServerController(QObject):
    """Owner of the server of one model."""

    def __init__(self, workbench: Workbench, view: ServerView, server: ModelServer) -> None:
        super().__init__()
        self._workspace, self._view, self._server = workbench.workspace, view, server
        self._settings = ServeSettings()
        self._key: str | None = None
        server.changed.connect(self._show)
        workbench.stopped.connect(server.leave)
        self._show()

    @property
    def name(self) -> str:
        """Return the name of the served model; empty until requests are accepted."""
        listening = self._server.state.listening
        return "" if listening is None else listening.model

    def open(self) -> None:
        """Ask which model to serve, the open one first."""
        source = self._workspace.source
        folder = "" if source is None else source.location
        self._view.ask(ServeSettings(folder or self._settings.folder, self._settings.port, self._settings.key_file))

    def start(self, settings: ServeSettings) -> None:
        """Start the server; `ModelServer.failed` says why it cannot."""
        self._settings = settings
        try:
            self._key = read_key(Path(settings.key_file).expanduser() if settings.key_file else None)
        except WinaError as error:
            self._server.failed.emit(str(error))
            return
        self._server.start(settings.folder, settings.port, settings.key_file)

    def stop(self) -> None:
        """Stop the server."""
        self._server.stop()

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
        state = self._server.state
        self._view.show_server(
            state_text(state),
            running=bool(state.folder),
            ready=state.listening is not None and not state.stopping,
        )
