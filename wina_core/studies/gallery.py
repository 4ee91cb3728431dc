"""The gallery of studies: the paper's tables and figures, real models, demo-sized versions, and the user's own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wina_core.errors import WinaError, near_matches
from wina_core.files.paths import data_folder, resources_folder, what_is_at
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
        """Return the study's name, or the file's where it holds no study."""
        return self.study.name if self.study else self.file.stem

    @property
    def title(self) -> str:
        """Return one line for lists."""
        return (self.study.title or self.study.name) if self.study else self.file.stem


def own_folder() -> Path:
    """Return the folder of the user's own studies, which the first study creates."""
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
        for entry in sorted((entry_of(file, kind) for file in _files(folder)), key=lambda entry: _place(entry.title))
    )


def _place(title: str) -> tuple[bool, list[tuple[int, str]]]:
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
    """Return the roles of a study's models that are not mapped here."""
    return unmapped(bind(study, roles))


def needs_data_folder(study: StudySpec) -> bool:
    """Return whether a study's texts lie in a data folder, but neither its file nor the user has named one."""
    return study.evaluation.data_folder is None and bool(data_sets(study))


def count_measurements(study: StudySpec) -> tuple[int, int]:
    """Return the numbers of a study's runs and of its sweep's points, without reading weights."""
    return count_runs(study), len(study.latency.points()) if study.latency else 0
