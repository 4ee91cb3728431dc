"""What the window remembers between starts: one small JSON file, written atomically, read entry by entry.

A damaged file, entry or item costs no more than itself: the default takes its place. A file that a newer version wrote
is left as it is.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from PySide6.QtCore import QByteArray

from wina_app.services.preferences import Preferences, read_preferences
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.files.tables import write_atomically

VERSION = 1
RECENT_LIMIT = 10

T = TypeVar("T")

_log = logging.getLogger(__name__)


def _is_newer(path: Path) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    version = content.get("version") if isinstance(content, dict) else None
    return isinstance(version, int) and version > VERSION


class Settings:
    """Typed access to the entries; every change is on disk, where there is a place for it, when its setter returns."""

    def __init__(self, path: Path | None = None) -> None:
        """`path` is for tests; by default "window.json" in the configuration folder."""
        self.trouble = ""
        """What the user should know of the file, as a sentence; empty when all is well."""
        self.tell: Callable[[str], object] = lambda _: None
        """Is told of trouble when it comes."""
        self._path = path or self._default_path()
        self._leave_newer()
        self._values = self._read()

    def _default_path(self) -> Path | None:
        try:
            return paths.config_folder() / "window.json"
        except WinaError as error:  # a read-only home must not stop anybody from working
            self._warn_that_nothing_is_kept(error)
            return None

    def _read(self) -> dict[str, object]:
        if self._path is None:
            return {}
        try:
            content = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("The window's settings in %s cannot be read (%s) and start afresh.", self._path, error)
            return {}
        if isinstance(content, dict) and content.get("version") == VERSION:
            return content
        _log.warning("%s holds no settings of the window, which start afresh.", self._path)
        return {}

    def _leave_newer(self) -> None:
        """From here on nothing is kept, if a newer version keeps what is its own in the file; another window may begin
        to while this one is open."""
        if self._path is not None and _is_newer(self._path):
            newer = tr(
                "A newer version of the workbench keeps its settings in {path}, which this one leaves as they are; "
                "what is set here holds until the window is closed.",
                path=self._path,
            )
            self._path = None
            self._warn(newer)

    def _warn_that_nothing_is_kept(self, error: WinaError) -> None:
        self._warn(tr("What is set here holds until the window is closed. {error}", error=error))

    def _warn(self, trouble: str) -> None:
        """Once, until there is other trouble."""
        if trouble != self.trouble:
            self.trouble = trouble
            _log.warning("%s", trouble)
            self.tell(trouble)

    def _texts(self, key: str) -> list[str]:
        return [one for one in self._get(key, list[object], []) if isinstance(one, str)]

    def _get(self, key: str, kind: type[T], default: T) -> T:
        try:
            return TypeAdapter(kind).validate_python(self._values.get(key, default), strict=True)
        except ValidationError:
            return default

    def _bytes(self, key: str) -> QByteArray:
        return QByteArray.fromBase64(self._get(key, str, "").encode(errors="replace"))

    def _set(self, **values: object) -> None:
        self._values |= {"version": VERSION, **values}
        self._leave_newer()
        if self._path is None:
            return
        try:
            write_atomically(self._path, json.dumps(self._values, indent=1).encode() + b"\n")
        except WinaError as error:  # a read-only home must not stop anybody from working
            self._warn_that_nothing_is_kept(error)
        else:
            self.trouble = ""

    @property
    def preferences(self) -> Preferences:
        """What the user set."""
        return read_preferences(self._values)

    @preferences.setter
    def preferences(self, value: Preferences) -> None:
        self._set(**value.model_dump())

    def update_preferences(self, **values: object) -> None:
        """Change some of the preferences."""
        self.preferences = Preferences(**self.preferences.model_dump() | values)

    @property
    def page(self) -> str:
        """Key of the page shown last."""
        return self._get("page", str, "model")

    @property
    def recent(self) -> list[str]:
        """Locations of models opened before, the last one first."""
        return self._texts("recent")

    def add_recent(self, location: str) -> None:
        """A model was opened."""
        others = [one for one in self.recent if one != location]
        self._set(recent=[location, *others][:RECENT_LIMIT])

    def forget_recent(self, location: str) -> None:
        """A model is not there any more."""
        self._set(recent=[one for one in self.recent if one != location])

    @property
    def studies(self) -> list[str]:
        """Study files of the user's own, in the order in which they were opened."""
        return self._texts("studies")

    @studies.setter
    def studies(self, value: list[str]) -> None:
        self._set(studies=value)

    @property
    def study_data(self) -> dict[str, str]:
        """Study's file: the folder that its tasks' data are taken from here, whatever the file says."""
        stored = self._get("study_data", dict[str, object], {})
        return {file: folder for file, folder in stored.items() if isinstance(folder, str)}

    @study_data.setter
    def study_data(self, value: dict[str, str]) -> None:
        self._set(study_data=value)

    @property
    def results_columns(self) -> list[str]:
        """Columns of the results table in their order, as `ColumnChoice.written` has them; empty for the usual ones."""
        return self._texts("results_columns")

    @results_columns.setter
    def results_columns(self, value: list[str]) -> None:
        self._set(results_columns=value)

    @property
    def recent_databases(self) -> list[str]:
        """URLs of databases opened before, the last one first."""
        return self._texts("recent_databases")

    def add_recent_database(self, url: str) -> None:
        """A database was opened."""
        others = [one for one in self.recent_databases if one != url]
        self._set(recent_databases=[url, *others][:RECENT_LIMIT])

    @property
    def session(self) -> dict[str, object]:
        """What was being worked on, as `session.py` writes it; empty when nothing was."""
        return self._get("session", dict[str, object], {})

    @session.setter
    def session(self, value: dict[str, object]) -> None:
        self._set(session=value)

    @property
    def prompts(self) -> list[str]:
        """What was sent to the Playground before, the last one first."""
        return self._texts("prompts")

    @prompts.setter
    def prompts(self, value: list[str]) -> None:
        self._set(prompts=value)

    @property
    def plot_file(self) -> dict[str, object]:
        """How a plot was saved last, as `models.plot_file.PlotFile` writes it."""
        return self._get("plot_file", dict[str, object], {})

    @plot_file.setter
    def plot_file(self, value: dict[str, object]) -> None:
        self._set(plot_file=value)

    @property
    def geometry(self) -> QByteArray:
        """QMainWindow.saveGeometry; empty when unknown."""
        return self._bytes("geometry")

    @property
    def layout(self) -> QByteArray:
        """QMainWindow.saveState: docks and toolbars; empty when unknown."""
        return self._bytes("layout")

    def save_window(self, geometry: QByteArray, layout: QByteArray, page: str) -> None:
        """Remember where the window was and what it showed."""
        encoded = {"geometry": geometry, "layout": layout}
        self._set(page=page, **{key: bytes(value.toBase64().data()).decode() for key, value in encoded.items()})
