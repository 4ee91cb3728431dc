"""Index of lm-eval's task names, built in a separate process if missing."""

from PySide6.QtCore import QObject, Signal

from wina_app.services.side_process import SideProcess
from wina_app.services.store_thread import StoreThread
from wina_app.style.translation import tr
from wina_core.files.own_command import own_command
from wina_core.studies.tasks.index import TaskIndex, load_index, searchable

BUILDING = tr("Indexing all task names for the first time, about 20 s; you can type any name meanwhile.")
_MODULE = "wina_core.compute.evaluation.index"


class TaskIndexing(QObject):
    """Loader of the index; `index` is None until `changed`, and `remark` says why."""

    changed = Signal()

    def __init__(self, store: StoreThread, command: tuple[str, ...] = own_command(_MODULE)) -> None:
        """Take the thread that reads the index file, and the command that builds it."""
        super().__init__()
        self.index: TaskIndex | None = None
        self.remark = ""
        self._store, self._command = store, command
        self._process: SideProcess | None = None
        self._requested = False

    def ask(self) -> None:
        """Load or build the index, once."""
        if not self._requested:
            self._requested = True
            self._store.ask(lambda _store: _load(), self._on_loaded)

    def stop(self) -> None:
        """Stop the building process, if any."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _on_loaded(self, index: TaskIndex | None) -> None:
        if index is None:
            self._build()
        else:
            self.index = index
            self._say("")

    def _build(self) -> None:
        self._process = SideProcess(self._command, parent=self)
        self._process.succeeded.connect(self._on_built)
        self._process.failed.connect(self._fail)
        self._say(BUILDING)
        self._process.start()

    def _on_built(self) -> None:
        self._process = None

        def loaded(index: TaskIndex | None) -> None:
            if index is None:
                self._fail(tr("the index could not be kept; the log has the reason"))
            else:
                self._on_loaded(index)

        self._store.ask(lambda _store: _load(), loaded)

    def _fail(self, cause: str) -> None:
        self._process, self._requested = None, False
        self._say(
            tr(
                "The task names could not be indexed ({cause}); you can still type any name.",
                cause=cause.rstrip("."),
            )
        )

    def _say(self, text: str) -> None:
        self.remark = text
        self.changed.emit()


def _load() -> TaskIndex | None:
    index = load_index()
    return None if index is None else searchable(index)
