"""The kind of a path to open, from its content where possible."""

from contextlib import suppress
from pathlib import Path
from typing import Literal

from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.files.user_file import is_ordinary

Kind = Literal["model", "study", "plan", "database"]
_SQLITE = b"SQLite format 3\0"
_GGUF = b"GGUF"
_STUDY = (b'"models":', b'"roles":', b'"latency":')
"""Every study in JSON contains one of these, and no plan does."""
_HEAD_BYTES = 2**16


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
            raise WinaError(tr('"{path}" is neither a file nor a folder; choose one.', path=path))
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(_SQLITE):
                return "database"
            if head.startswith(_GGUF):
                return "model"
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        reason = getattr(error, "strerror", None) or error
        raise WinaError(tr('"{path}" cannot be opened ({reason}).', path=path, reason=reason)) from error
    if path.suffix.lower() == ".toml":
        return "study"
    if path.name == "config.json" or path.suffix.lower() in (".safetensors", ".gguf"):
        return "model"
    if path.suffix.lower() == ".json":
        return "study" if any(word in head for word in _STUDY) else "plan"
    raise WinaError(
        tr(
            '"{name}" cannot be opened: choose a model folder, a GGUF file, a study (.toml), a sparsity plan (.json) '
            "or a results database (.sqlite).",
            name=path.name,
        )
    )


def _folder(path: Path) -> Kind:
    if (path / "config.json").is_file() or any(path.glob("*.gguf")):
        return "model"
    raise WinaError(
        tr(
            '"{name}" is not a model folder: it has neither a config.json nor a GGUF file. Choose the folder that has '
            "one.",
            name=path.name,
        )
    )
