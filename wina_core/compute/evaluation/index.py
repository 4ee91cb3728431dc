"""The names of all stock tasks, read from lm-eval's files once for each of its versions."""

import logging
from collections.abc import Mapping
from functools import cache

from wina_core.compute.evaluation.lm_eval_adapter import STOCK_FOLDER, Entry, TaskManager
from wina_core.compute.evaluation.lm_eval_adapter import Kind as LmKind
from wina_core.errors import WinaError
from wina_core.studies.tasks.index import Kind, TaskEntry, TaskIndex, load_index, save_index

_KINDS: dict[LmKind, Kind] = {
    LmKind.TASK: "task",
    LmKind.PY_TASK: "task",
    LmKind.GROUP: "group",
    LmKind.TAG: "tag",
}
_DEFAULT_OUTPUT = "generate_until"
"""lm-eval's output type of a task file that names none."""


@cache
def stock_entries() -> Mapping[str, Entry]:
    """Return all tasks of lm-eval with their configuration; reading the files takes about 17 s."""
    logging.getLogger("lm_eval").info("Indexing the stock tasks")
    entries: Mapping[str, Entry] = TaskManager().task_index
    return entries


@cache
def stock_index() -> TaskIndex:
    """Return the cached index, or build and cache it."""
    index = load_index()
    if index is None:
        index = TaskIndex(tuple(_listed(entry) for _, entry in sorted(stock_entries().items())))
        try:
            save_index(index)
        except WinaError as error:
            logging.getLogger("wina_core").warning("The index of tasks is not kept for later. %s", error)
    return index


def _listed(entry: Entry) -> TaskEntry:
    path = str(entry.yaml_path.relative_to(STOCK_FOLDER)) if entry.yaml_path else ""
    output = str((entry.cfg or {}).get("output_type", _DEFAULT_OUTPUT)) if entry.kind == LmKind.TASK else ""
    return TaskEntry(entry.name, _KINDS[entry.kind], output, path)


if __name__ == "__main__":
    stock_index()
