"""Folders of another machine, over one connection on a thread of its own."""

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from wina_core.errors import WinaError
from wina_core.specs.machine import Machine

if TYPE_CHECKING:  # imported with the first connection
    from wina_core.remote.machines.ask import Conversation

Connect = Callable[[Machine], "AbstractContextManager[Conversation]"]


class FolderBrowser(QObject):
    """Lister of folders; only the answer to the latest question is sent."""

    listed = Signal(object)
    """FolderListing."""
    refused = Signal(str)
    """One sentence; the next question connects again."""

    def __init__(self, machine: Machine, parent: QObject | None = None, connect: Connect | None = None) -> None:
        super().__init__(parent)
        self._machine, self._connect = machine, connect
        self._questions: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._latest = ""
        self._thread: threading.Thread | None = None

    def ask(self, path: str) -> None:
        """List the folders in a folder; a leading ~ is the home folder there."""
        self._latest = path
        self._questions.put(path)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="browse", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        """Close the connection, after the present answer."""
        self._latest = ""
        self._questions.put(None)

    def _work(self) -> None:
        from wina_core.remote.machines.ask import Conversation

        connect = self._connect or Conversation
        path = self._questions.get()
        with suppress(RuntimeError):  # the window has closed meanwhile
            while path is not None:
                try:
                    with connect(self._machine) as conversation:
                        while path is not None:
                            self._list(conversation, path)
                            path = self._questions.get()
                except WinaError as error:
                    if path == self._latest:
                        self.refused.emit(str(error))
                    path = self._questions.get()

    def _list(self, conversation: "Conversation", path: str) -> None:
        from wina_core.remote.machines.messages import FolderListing, FolderQuestion

        if path == self._latest:
            listing = conversation.ask("list_folder", FolderQuestion(path=path), FolderListing)
            if path == self._latest:
                self.listed.emit(listing)
