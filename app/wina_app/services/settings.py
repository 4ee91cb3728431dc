"""The settings of the window: one JSON file, read entry by entry and written atomically."""

import json
import logging
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, field_validator

from wina_app.style.theme import Mode
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.files.hardware import parse_bytes
from wina_core.files.paths import has_password
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file

VERSION: Literal[1] = 1
RECENT_LIMIT = 10

_log = logging.getLogger(__name__)


class Preferences(BaseModel):
    """Values that the user sets; the settings dialog shows each field's title and description, and keeps its bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    theme: Mode = Field(
        "system",
        title="Appearance",
        description="System follows the desktop as it changes.",
    )
    text_size: Annotated[int, Field(ge=80, le=200)] = Field(
        100,
        json_schema_extra={"step": 10},
        title="Text size (%)",
        description="Scales all texts and layouts on top of the desktop's setting.",
    )
    colour_map: Literal["viridis", "cividis"] = Field(
        "viridis",
        title="Heatmap colours",
        description="Both suit all common colour vision; cividis has fewer hues.",
    )
    sparsity_count: Count = Field(
        DEFAULT_COUNT,
        json_schema_extra={
            "names": {
                "gated": "Gated (dropped weights of gated layers)",
                "net": "Net (weights read in their place are subtracted)",
            }
        },
        title="Sparsity in comparisons",
        description="Measured sparsity in plots, run names and comparisons; the target is shown beside it.",
    )
    notify: bool = Field(
        True, title="Notify when a long job ends", description="At the lower edge, with a link to the results."
    )
    reopen: bool = Field(
        True,
        title="Restore the last session",
        description="Opens the last model, rotation, method and plan at start.",
    )
    confirm_quit: bool = Field(
        True, title="Confirm quitting while jobs run", description="Stored results are kept either way."
    )
    engines: Annotated[int, Field(ge=0, le=64)] = Field(
        0,
        title="Engine processes",
        description="Jobs that run at the same time; 0 means one per GPU. Takes effect at the next start.",
    )
    memory: str = Field(
        "",
        title="Memory limit",
        description=(
            "Memory that computing may take, such as 8GB; a larger model is read from its files layer by layer. Empty "
            "for all that is free. Takes effect at the next start."
        ),
    )
    llama_cpp: str = Field(
        "",
        title="Folder of llama.cpp",
        description="Its convert_hf_to_gguf.py writes GGUF files; empty for that of LLAMA_CPP or the PATH.",
    )
    database: str = Field(
        "",
        title="Results database",
        description="File or address of a server; empty for the default. Takes effect at the next start.",
    )

    @field_validator("memory")
    @classmethod
    def _is_size(cls, memory: str) -> str:
        if memory:
            try:
                parse_bytes(memory)
            except WinaError as error:
                raise ValueError(str(error)) from error
        return memory

    @field_validator("database")
    @classmethod
    def _has_no_password(cls, database: str) -> str:
        """Refuse a password, which would be stored."""
        if has_password(database):
            raise ValueError("An address with a password is not stored; put the password into ~/.pgpass.")
        return database


def appearance_of(preferences: Preferences) -> tuple[Mode, float, str]:
    """Return the arguments of `apply_theme`."""
    return preferences.theme, preferences.text_size / 100, preferences.colour_map


def _decoded(value: object) -> object:
    return b64decode(value, validate=True) if isinstance(value, str) else value


_Bytes = Annotated[bytes, BeforeValidator(_decoded), PlainSerializer(lambda value: b64encode(value).decode())]


class Entries(Preferences):
    """Everything that the window remembers between starts."""

    model_config = ConfigDict(frozen=False, extra="allow", validate_assignment=True)

    version: Literal[1] = VERSION
    page: str = "model"
    """Key of the page shown last."""
    recent: list[str] = Field(default_factory=list)
    """Locations of models opened before, the last one first."""
    studies: list[str] = Field(default_factory=list)
    """Study files of the user, in the order in which they were opened."""
    study_data: dict[str, str] = Field(default_factory=dict)
    """Folder of local data of all studies whose files name none, under the key ""."""
    results_columns: list[str] = Field(default_factory=list)
    """Columns of the results table in order, as `ColumnChoice.written`; empty for the default ones."""
    recent_databases: list[str] = Field(default_factory=list)
    """URLs of databases opened before, the last one first."""
    session: dict[str, object] = Field(default_factory=dict)
    """Model, rotation, method and plan being worked on, as `session.py` writes them."""
    run_on: list[str] = Field(default_factory=list)
    """Machines that may compute new jobs, "local" among them for this computer; empty for this computer alone."""
    views: dict[str, dict[str, object]] = Field(default_factory=dict)
    """Form and view of each page, as its `view_state` returns them."""
    prompts: list[str] = Field(default_factory=list)
    """Prompts of the Playground, the last one first."""
    plot_file: dict[str, object] = Field(default_factory=dict)
    """Options of the last plot export."""
    geometry: _Bytes = b""
    """`QMainWindow.saveGeometry`."""
    layout: _Bytes = b""
    """`QMainWindow.saveState`: docks and toolbars."""
    docks_collapsed: bool | None = None
    """True if Jobs and Log are lines; None if the window's height decides."""
    docks_height: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Height of Jobs and Log in pixels while they are not collapsed; 0 for the default."""
    docks_withheld: list[str] = Field(default_factory=list)
    """Docks that the user has shown and that were hidden at the end because the page had nothing for them."""


class Settings(Entries):
    """The entries with their file, to which every assignment is written at once.

    An entry or item that is not valid is replaced by its default and reported; the others are kept. A file that cannot
    be written does not stop anyone from working.
    """

    _path: Path | None = None
    _problem: str = ""
    _report: Callable[[str], object] | None = None

    def __init__(self, path: Path | None = None) -> None:
        """Read the settings in `path`, by default "window.json" in the configuration folder."""
        problem = ""
        try:
            path = path or paths.config_folder() / "window.json"
            entries, problem = _read(path)
        except WinaError as error:
            path, entries, problem = None, {}, _temporary(error)
        super().__init__(**entries)
        self._path = path
        self._set_problem(problem)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self._save()

    def update(self, **values: object) -> None:
        """Change several entries and write the file once."""
        for name, value in values.items():
            super().__setattr__(name, value)
        self._save()

    def report_to(self, report: Callable[[str], object]) -> None:
        """Pass the present problem with the file, and every later one, to `report` as a sentence."""
        self._report = report
        if self._problem:
            report(self._problem)

    @property
    def preferences(self) -> Preferences:
        return Preferences(**{name: getattr(self, name) for name in Preferences.model_fields})

    def add_recent(self, location: str) -> None:
        self.recent = _with_first(self.recent, location)

    def forget_recent(self, location: str) -> None:
        self.recent = [one for one in self.recent if one != location]

    def add_recent_database(self, url: str) -> None:
        self.recent_databases = _with_first(self.recent_databases, url)

    def _save(self) -> None:
        if self._path is None:
            return
        entries = {"version": VERSION} | self.model_dump(mode="json", exclude_unset=True)
        try:
            write_atomically(self._path, json.dumps(entries, indent=1).encode() + b"\n")
        except WinaError as error:
            self._set_problem(_temporary(error))
        else:
            self._problem = ""

    def _set_problem(self, problem: str) -> None:
        """Log and report a problem once."""
        if problem and problem != self._problem:
            _log.warning("%s", problem)
            if self._report is not None:
                self._report(problem)
        self._problem = problem


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """Return the valid entries of a file, and a sentence on what is not valid."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return {}, ""
    except (WinaError, ValueError, RecursionError) as error:
        return {}, f"The settings in {path} cannot be read ({error}); the defaults apply."
    if isinstance(content, dict) and isinstance(version := content.get("version"), int) and version > VERSION:
        raise WinaError(f"{path} is of a newer version of the window")
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return {}, f"{path} does not contain settings of the window; the defaults apply."
    damaged: list[str] = []
    while True:
        try:
            Entries.model_validate(content)
        except ValidationError as error:
            location = error.errors(include_url=False, include_input=False)[-1]["loc"]
            if not location:  # a name that is no text
                return {}, f"{path} does not contain settings of the window; the defaults apply."
            _remove(content, location)
            damaged.append(str(location[0]))
        else:
            break
    if not damaged:
        return content, ""
    names = ", ".join(sorted(set(damaged)))
    return content, f"Damaged settings were replaced by their defaults: {names}."


def _content(path: Path) -> Any:
    if not os.path.lexists(path):  # a broken link exists, and is reported
        raise FileNotFoundError(path)
    return json.loads(read_file(path, "settings file"))


def _remove(content: dict[str, Any], location: tuple[int | str, ...]) -> None:
    """Remove an entry, or the item of a list or mapping in it."""
    entry = content[str(location[0])]
    if len(location) > 1 and isinstance(entry, list | dict):
        del entry[cast(Any, location[1])]
    else:
        del content[str(location[0])]


def _temporary(error: WinaError) -> str:
    return f"Settings hold until the window is closed. {error}"


def _with_first(values: list[str], first: str) -> list[str]:
    return [first, *(value for value in values if value != first)][:RECENT_LIMIT]
