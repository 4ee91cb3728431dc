"""Which model stands for each role of the studies here: told once, for the window and the command line alike. Light."""

import json
from collections.abc import Iterable
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.sources.model_checks import read_config
from wina_core.sources.resolve import local_folder
from wina_core.specs import ModelSource


def roles_file() -> Path:
    """Where the mapping is kept."""
    return config_folder() / "roles.json"


def load_roles() -> dict[str, str]:
    """Role: folder, hub id or "demo". WinaError for a file that is not such a mapping."""
    file = roles_file()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise WinaError(_unreadable(file, str(cause))) from error
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise WinaError(_unreadable(file, "it is not a group of names with a folder each"))
    return content


def save_role(name: str, location: str) -> dict[str, str]:
    """Have a role stand for a folder, a hub id or "demo" from now on, or with an empty location for nothing; returns
    the whole mapping.

    WinaError for a folder that does not exist or holds no model, and what `load_roles` raises: a file that cannot be
    read is kept.
    """
    roles = load_roles()
    if location:
        roles[name] = absolute(location)
    else:
        roles.pop(name, None)
    write_atomically(roles_file(), (json.dumps(roles, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())
    return roles


def absolute(location: str) -> str:
    """A folder's whole path, a hub id or "demo" as it is; WinaError for neither, and for a folder without a model."""
    folder = local_folder(ModelSource(location=location))
    if folder is None or location == "demo":
        return location
    read_config(folder)
    return str(folder.resolve())


def parse_roles(given: Iterable[str]) -> dict[str, str]:
    """What "NAME=FOLDER" stands for, the folder empty where nothing follows; WinaError for anything else."""
    roles = {}
    for text in given:
        name, equals, location = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise WinaError(f'"{text}" maps no role; write NAME=FOLDER, as "Llama-2-7B=/models/llama-2-7b".')
        roles[name] = location
    return roles


def _unreadable(file: Path, cause: str) -> str:
    return f"The roles in {file} cannot be read ({cause}); correct or delete the file, then map the roles again."
