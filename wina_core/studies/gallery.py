"""The gallery of studies: the paper's tables and figures, real models, demo-sized versions, and the user's own."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain, near_matches
from wina_core.files.paths import config_folder, data_folder, resources_folder, what_is_at
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.resolve import gguf_file, local_folder, resolve
from wina_core.model_info.small_models import SMALL_MODELS, location_of
from wina_core.specs import ModelSource
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import bind, count_runs, data_sets, load_study, unmapped

Kind = Literal["paper", "real", "demo", "own"]
_SUFFIXES = (".toml", ".json")


@dataclass(frozen=True)
class GalleryEntry:
    """One study's file."""

    file: Path
    kind: Kind
    study: StudySpec | None
    error: str = ""
    """The fault of the file, where it holds no study."""

    @property
    def name(self) -> str:
        return self.study.name if self.study else self.file.stem

    @property
    def title(self) -> str:
        return (self.study.title or self.study.name) if self.study else self.file.stem


def own_folder() -> Path:
    return data_folder() / "studies"


def gallery() -> tuple[GalleryEntry, ...]:
    """Return all studies, the paper's first, the user's last, each kind in the order Figure 2, Table 2, Table 13."""
    shipped = resources_folder() / "studies"
    folders: dict[Kind, Path] = {
        "paper": shipped / "paper",
        "real": shipped / "real",
        "demo": shipped / "demo",
        "own": own_folder(),
    }
    return tuple(
        entry
        for kind, folder in folders.items()
        for entry in sorted((entry_of(file, kind) for file in _files(folder)), key=lambda entry: _sort_key(entry.title))
    )


def _sort_key(title: str) -> tuple[bool, list[tuple[int, str]]]:
    """Return a sort key: figures and tables before the rest, numbers by size."""
    words = re.findall(r"\d+|[^\W\d]+", title.lower().replace("figures", "figure"))
    return not {"figure", "table"} & set(words), [(int(word), "") if word.isdecimal() else (0, word) for word in words]


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*") if file.suffix.lower() in _SUFFIXES]


def entry_of(file: Path, kind: Kind) -> GalleryEntry:
    """Return a study file's entry; a faulty file has its error."""
    try:
        return GalleryEntry(file, kind, load_study(file))
    except WinaError as error:
        return GalleryEntry(file, kind, None, str(error))


def find_study(name: str) -> StudySpec:
    """Return a study by its name in the gallery or its file; WinaError for neither, and for a faulty file."""
    path = Path(name).expanduser()
    if path.suffix.lower() in _SUFFIXES or what_is_at(path) == "file":
        return load_study(path)
    entries = gallery()
    for entry in entries:
        if name == entry.name:
            if entry.study is None:
                raise WinaError(entry.error)
            return entry.study
    close = near_matches(name, [entry.name for entry in entries])
    hint = close or "`wina study list` has their names; or give a file."
    raise WinaError(f'There is no study "{name}" in the gallery; {hint}')


def needs(study: StudySpec, roles: Mapping[str, str]) -> tuple[Role, ...]:
    return unmapped(bind(study, roles))


def needs_data_folder(study: StudySpec) -> bool:
    """Return whether a study's texts lie in a data folder, but neither its file nor the user has named one."""
    return study.evaluation.data_folder is None and bool(data_sets(study))


def count_measurements(study: StudySpec) -> tuple[int, int]:
    """Return the numbers of a study's runs and of its sweep's points, without reading weights."""
    return count_runs(study), len(study.latency.points()) if study.latency else 0


# ---- the user's mapping of the studies' roles to models --------------------------------------------------------------


def roles_file() -> Path:
    return config_folder() / "roles.json"


def load_roles() -> dict[str, str]:
    """Return the folder, hub id or "demo" of each role; WinaError for a faulty file."""
    file = roles_file()
    if not os.path.lexists(file):
        return {}
    try:
        return TypeAdapter(dict[str, str]).validate_json(read_file(file, "file of roles"))
    except (WinaError, ValidationError) as error:
        cause = explain(error).rstrip(".") if isinstance(error, ValidationError) else error
        raise WinaError(
            f"The roles in {file} cannot be read ({cause}); correct or delete the file, then map the roles again."
        ) from error


def save_role(name: str, location: str) -> dict[str, str]:
    """Map a role to a folder, a hub id or "demo", or with an empty location to nothing; return the whole mapping.

    Raises WinaError for a folder without a model, and as `load_roles`, which keeps a faulty file.
    """
    roles = load_roles()
    if location:
        roles[name] = absolute(location)
    else:
        roles.pop(name, None)
    write_atomically(roles_file(), (json.dumps(roles, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())
    return roles


def absolute(location: str) -> str:
    """Return a folder's or file's absolute path, or a hub id or "demo"; WinaError for others and those without a
    model."""
    if location in SMALL_MODELS:
        location_of(location)  # which raises for one that is not here
        return location
    if (file := gguf_file(ModelSource(location=location))) is not None:
        read_gguf_header(file)
        return resolve(ModelSource(location=location)).location
    folder = local_folder(ModelSource(location=location))
    if folder is None or location == "demo":
        return location
    read_config(folder)
    return str(folder.resolve())


def parse_roles(mappings: Iterable[str]) -> dict[str, str]:
    """Return the folder of each "NAME=FOLDER", which may be empty; WinaError for other texts."""
    roles = {}
    for text in mappings:
        name, equals, location = (side.strip() for side in text.partition("="))
        if not equals or not name:
            raise WinaError(f'"{text}" maps no role; write NAME=FOLDER, as "Llama-2-7B=/models/llama-2-7b".')
        roles[name] = location
    return roles
