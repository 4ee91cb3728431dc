"""The user's mapping of the studies' roles to models, for window and command line."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.resolve import gguf_file, local_folder, resolve
from wina_core.model_info.small_models import SMALL_MODELS, location_of
from wina_core.specs import ModelSource


def roles_file() -> Path:
    """Return the file of the mapping."""
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


def parse_roles(given: Iterable[str]) -> dict[str, str]:
    """Return the folder of each "NAME=FOLDER", which may be empty; WinaError for other texts."""
    roles = {}
    for text in given:
        name, equals, location = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise WinaError(f'"{text}" maps no role; write NAME=FOLDER, as "Llama-2-7B=/models/llama-2-7b".')
        roles[name] = location
    return roles
