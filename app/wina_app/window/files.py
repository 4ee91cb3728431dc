"""Files that the window opens: kinds of paths, models, studies, plans and databases, and the merge of two databases."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QObject, Signal

from wina_app.services.workbench import Workbench
from wina_app.style.number_format import plural
from wina_app.window.main_window import MainWindow
from wina_app.window.messages import MessageWindow
from wina_core.errors import Cancelled, WinaError
from wina_core.files.paths import has_password
from wina_core.files.user_file import is_ordinary

Kind = Literal["model", "study", "plan", "database"]
_SQLITE = b"SQLite format 3\0"
_GGUF = b"GGUF"
_STUDY = (b'"models":', b'"roles":', b'"latency":')
"""Every study in JSON contains one of these, and no plan does."""
_HEAD_BYTES = 2**16

_PAGES: dict[Kind, str] = {"model": "model", "study": "studies", "plan": "sparsity"}


def is_model(path: Path) -> bool:
    """Return whether a path is that of a model; False for one that cannot be opened."""
    with suppress(WinaError):
        return kind_of(path) == "model"
    return False


def kind_of(path: Path) -> Kind:
    """Return the kind of a path: model, study file, plan or results database; raise WinaError for others."""
    try:
        if path.is_dir():
            return _folder(path)
        if path.exists() and not is_ordinary(path.stat()):  # a pipe would block for ever
            raise WinaError(f'"{path}" is neither a file nor a folder; choose one.')
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(_SQLITE):
                return "database"
            if head.startswith(_GGUF):
                return "model"
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        reason = getattr(error, "strerror", None) or error
        raise WinaError(f'"{path}" cannot be opened ({reason}).') from error
    if path.suffix.lower() == ".toml":
        return "study"
    if path.name == "config.json" or path.suffix.lower() in (".safetensors", ".gguf"):
        return "model"
    if path.suffix.lower() == ".json":
        return "study" if any(word in head for word in _STUDY) else "plan"
    raise WinaError(
        f'"{path.name}" cannot be opened: choose a model folder, a GGUF file, a study (.toml), a sparsity plan (.json) '
        "or a results database (.sqlite)."
    )


def _folder(path: Path) -> Kind:
    if (path / "config.json").is_file() or any(path.glob("*.gguf")):
        return "model"
    raise WinaError(
        f'"{path.name}" is not a model folder: it has neither a config.json nor a GGUF file. Choose the folder '
        "that has one."
    )


class FileOpener(QObject):
    """Opener of a path by its kind: a database itself, the others by `openers`."""

    def __init__(self, workbench: Workbench, window: MainWindow, openers: dict[Kind, Callable[[Path], object]]) -> None:
        super().__init__()
        self._workbench, self._window, self._openers = workbench, window, openers
        self._requested: str | None = None
        self._settling = False
        """True while the database change waits for answers of the store."""
        workbench.store.opened.connect(self._on_opened)

    def open(self, path: Path) -> None:
        """Open a path on the page for its kind."""
        self._window.clear_failure()
        try:
            kind = kind_of(path)
        except WinaError as error:
            self._window.show_failure(str(error))
            return
        if kind == "database":
            self.open_database(str(path))
            return
        self._window.show_page(_PAGES[kind])
        in_folder = kind == "model" and path.is_file() and path.suffix.lower() != ".gguf"
        self._openers[kind](path.parent if in_folder else path)

    def open_database(self, url: str) -> None:
        """Switch to another results database, a file or an address, unless jobs are running."""
        self._window.clear_failure()
        self._requested = url
        if not self._settling:
            self._switch()

    def new_database(self, path: Path) -> None:
        """Create an empty database in a new file."""
        path = path if path.suffix else path.with_suffix(".sqlite")
        if path.exists():
            self._window.show_failure(f'"{path}" already exists; choose another name, or open it.')
            return
        self.open_database(str(path))

    def _switch(self, _answer: object = None) -> None:
        """Switch once the store has answered everything."""
        store, self._settling = self._workbench.store, False
        if self._workbench.jobs.active:
            self._refused("The results database cannot be changed while jobs run; wait for them or cancel them first.")
        elif store.unanswered:  # an answer may submit a job for the present database
            self._settling = True
            store.ask(lambda _store: None, self._switch, self._switch)
        elif self._requested is not None:
            store.switch(self._requested, self._refused)

    def _on_opened(self, store: Any) -> None:
        from wina_core.store.connection import place_of  # with SQLAlchemy, which the store has loaded

        address = place_of(store.url)
        self._window.show_database(store.url.database or address, address if "://" in address else str(store.url))
        if self._requested is not None:
            if not has_password(self._requested):  # passwords are not stored
                self._workbench.settings.add_recent_database(self._requested)
            self._requested = None
            self._window.show_page("results")

    def _refused(self, text: str) -> None:
        self._requested = None
        self._window.show_failure(text)


class DatabaseMerge(QObject):
    """Merges into the open database, one at a time. A cancelled one leaves a valid database."""

    _advanced = Signal(int)

    def __init__(self, workbench: Workbench, window: MessageWindow) -> None:
        super().__init__()
        self._workbench, self._window = workbench, window
        self._url = ""
        """URL of the open database."""
        self._source = ""
        """Name of the file that is being merged; empty without any."""
        self._cancelled = False
        workbench.store.opened.connect(self._on_opened)
        self._advanced.connect(self._on_advanced)

    def merge_from(self, path: Path) -> None:
        """Merge another database into the open one."""
        if self._source:
            text = f"{self._source} is being merged; wait for it or cancel it."
            self._window.show_failure(text)
            return
        self._source, self._cancelled = path.name, False
        url = self._url
        last_percent = -1

        def on_progress(finished: int, total: int) -> None:
            nonlocal last_percent
            if self._cancelled:
                raise Cancelled
            if (percent := 100 * finished // max(total, 1)) != last_percent:
                last_percent = percent
                # Called on the thread of the check: the signal brings it to the main thread.
                self._advanced.emit(percent)

        def question() -> int | None:
            from wina_core.store import Store  # SQLAlchemy takes a second to import: only threads do
            from wina_core.store.merge import merge_database

            try:
                # A store of its own: on the store's thread the merge would keep all other work waiting.
                with Store(url) as store:
                    return sum(merge_database(path, store, on_progress).values())
            except Cancelled:
                return None

        def answer(added: int | None) -> None:
            self._end()
            if added is not None:
                rows = plural(added, "new rows", "new row")
                self._window.say("Merged", f"{rows} from {path.name}", "", lambda: None)

        def refused(reason: str) -> None:
            self._end()
            self._window.show_failure(reason)

        self._on_advanced(0)
        self._workbench.checks.ask(question, answer, refused)

    def _on_advanced(self, percent: int) -> None:
        if self._source:
            text = f"Merging {self._source}: {percent} %"
            self._window.show_progress("Database", text, self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True

    def _end(self) -> None:
        self._source = ""
        self._window.end_progress()
        self._workbench.store.write(lambda _store: None, self._window.show_failure)  # `changed` follows

    def _on_opened(self, store: Any) -> None:
        # The merge opens the database again, which needs the password.
        self._url = store.url.render_as_string(hide_password=False)
