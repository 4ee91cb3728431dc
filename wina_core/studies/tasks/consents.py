"""The user's stored consents to run the code of task folders, by machine, folder and content."""

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.specs.machine import LOCAL

_FILE = "trusted-task-code.json"

_Consents = dict[str, dict[str, Any]]
"""The digest and the date of each folder's consent."""


def allowed_code(machines: Iterable[str] = ()) -> dict[str, str]:
    """Return the digests that the user allowed on all these machines, by folder; `()` is this computer."""
    stored = _read()
    first, *others = [
        {folder: str(entry["digest"]) for folder, entry in stored.get(machine, {}).items()}
        for machine in machines or (LOCAL,)
    ]
    return {folder: digest for folder, digest in first.items() if all(digest == each.get(folder) for each in others)}


def allow_code(digests: Mapping[str, str], machines: Iterable[str] = ()) -> None:
    """Store the user's consent to these digests by folder, on these machines; WinaError where it cannot be written."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    stored = _read()
    for machine in machines or (LOCAL,):
        stored.setdefault(machine, {}).update(
            {folder: {"digest": digest, "date": today} for folder, digest in digests.items()}
        )
    _write(stored)


def forget_machine(machine: str) -> None:
    """Drop the consents for a machine."""
    stored = _read()
    if stored.pop(machine, None) is not None:
        _write(stored)


def _read() -> dict[str, _Consents]:
    """Return the consents by machine, without those that are damaged: the user is asked again."""
    try:
        content = json.loads((config_folder() / _FILE).read_text(encoding="utf-8"))
        stored = {LOCAL: content["folders"], **content.get("machines", {})}
        return {machine: _whole(folders) for machine, folders in stored.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _whole(folders: _Consents) -> _Consents:
    return {folder: entry for folder, entry in folders.items() if isinstance(entry, dict) and "digest" in entry}


def _write(stored: Mapping[str, _Consents]) -> None:
    machines = {machine: folders for machine, folders in stored.items() if machine != LOCAL}
    content = {"folders": stored.get(LOCAL, {}), "machines": machines}
    write_atomically(config_folder() / _FILE, json.dumps(content, indent=1).encode(), private=True)
