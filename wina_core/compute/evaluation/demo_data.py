"""Loader of the demo tasks' data beside their YAML files, from any current folder.

lm-eval reads relative `data_files` from the current folder; a `custom_dataset` function has no such limit, downloads
nothing and leaves nothing in the data set cache.
"""

from __future__ import annotations

import json
from typing import Any

import datasets

from wina_core.files.paths import resources_folder


def load(file: str, **_: Any) -> dict[str, datasets.Dataset]:
    """Return the JSON lines of `file` as the `test` split; lm-eval's metadata arguments are ignored."""
    lines = (resources_folder() / "demo" / "tasks" / file).read_text(encoding="utf-8").splitlines()
    return {"test": datasets.Dataset.from_list([json.loads(line) for line in lines])}
