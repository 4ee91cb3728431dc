"""Finding and loading lm-eval tasks: the demo's own, those of the user's folders, and the stock ones."""

import contextlib
import difflib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lm_eval.tasks
from datasets.exceptions import DatasetsError
from lm_eval.tasks import TaskManager
from lm_eval.tasks._factory import TaskFactory
from lm_eval.tasks._index import Entry, Kind

from wina_core.errors import WinaError
from wina_core.paths import cache_folder, resources_folder
from wina_core.specs import EvaluationSpec

_LEAVES = (Kind.TASK, Kind.PY_TASK)
_STOCK_FOLDER = Path(lm_eval.tasks.__file__).parent


def check_tasks(spec: EvaluationSpec) -> None:
    """Load every task's definition and data, so that a mistake shows before any model is loaded.

    Raises WinaError for an unknown task, naming close matches, for one whose data cannot be had, and for one that
    this workbench cannot run.
    """
    for task in spec.task_names:
        load_task(task, spec.task_folders)


def load_task(name: str, folders: Sequence[str] = ()) -> Any:
    """lm-eval's task dictionary {"tasks", "groups", "group_map"} of a task, group or tag; raises like `check_tasks`.

    A task in the given folders goes before a stock one of the same name. Relative `data_files` of a task file are
    taken from the file's own folder where they are found there, and else from the current one, as by lm-eval.
    """
    manager = _manager(folders)
    spec = name
    entry = manager.task_index.get(name)
    if entry is None:
        paths = _stock_paths()
        if name not in paths:
            raise WinaError(_unknown(name, [*manager.task_index, *paths]))
        if paths[name]:
            spec = str(_STOCK_FOLDER / paths[name])
    if (entry is None and spec == name) or (entry is not None and entry.kind not in _LEAVES):
        for member, stock in _stock_index().items():  # groups and tags may name any stock task
            manager.task_index.setdefault(member, stock)
    try:
        loaded = manager.load([spec])
    except ModuleNotFoundError as error:
        raise WinaError(
            f'The task "{name}" needs the Python package {error.name}; install it with pip and try again.'
        ) from error
    except (OSError, RuntimeError, DatasetsError) as error:
        raise WinaError(
            f'The data of the task "{name}" cannot be had ({_first_line(error)}); run the task once while online, '
            "or point its task file at a local data file."
        ) from error
    except Exception as error:  # task files are the user's, and their mistakes come as any exception
        raise WinaError(
            f'The task "{name}" cannot be built ({_first_line(error)}); correct its task file or choose another task.'
        ) from error
    for task in loaded["tasks"].values():
        _check_supported(task)
    return loaded


def _manager(folders: Sequence[str]) -> TaskManager:
    """lm-eval's manager of the demo's tasks and the given folders only: a fraction of a second."""
    paths = [resources_folder() / "demo" / "tasks", *(Path(folder).expanduser().resolve() for folder in folders)]
    for path in paths:
        if not path.is_dir():
            raise WinaError(f"The task folder {path} does not exist; correct it or leave it out.")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # its remarks on task files are not for our users
    manager = TaskManager(include_defaults=False, include_path=[str(path) for path in paths])
    manager._factory = _Factory()
    return manager


class _Factory(TaskFactory):
    """Builds tasks whose relative data files are found beside the task file, from any current folder."""

    def _load_full_config(self, entry: Entry, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
        config = super()._load_full_config(entry, overrides)
        arguments = config.get("dataset_kwargs") or {}
        if entry.yaml_path and "data_files" in arguments:
            folder = Path(entry.yaml_path).parent
            config["dataset_kwargs"] = arguments | {"data_files": _beside(arguments["data_files"], folder)}
        return config


def _beside(files: Any, folder: Path) -> Any:
    """The same file, list or mapping of files, with those that exist in `folder` made absolute."""
    if isinstance(files, Mapping):
        return {key: _beside(value, folder) for key, value in files.items()}
    if isinstance(files, list):
        return [_beside(value, folder) for value in files]
    found = (folder / str(files)).resolve()
    return str(found) if found.exists() else files


@cache
def _stock_index() -> Mapping[str, Entry]:
    """Everything that comes with lm-eval; reading its files takes about 17 s."""
    logging.getLogger("lm_eval").info("Indexing the stock tasks")
    index: Mapping[str, Entry] = TaskManager().task_index
    return index


@cache
def _stock_paths() -> Mapping[str, str]:
    """The stock names with their task file in lm-eval's task folder ("" for groups and tags), kept between starts."""
    path = cache_folder() / f"lm-eval-{version('lm-eval')}-tasks.json"
    with contextlib.suppress(OSError, ValueError):
        kept: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    paths = {
        name: str(entry.yaml_path.relative_to(_STOCK_FOLDER)) if entry.yaml_path and entry.kind in _LEAVES else ""
        for name, entry in _stock_index().items()
    }
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(paths), encoding="utf-8")
    temporary.replace(path)
    return paths


def _unknown(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "check its name, or add the folder of its task file."
    return f'There is no task "{name}"; {hint}'


def _check_supported(task: Any) -> None:
    if getattr(task, "UNSAFE_CODE", False):
        raise WinaError(
            f'The task "{task.task_name}" runs code that the model writes, which is not done here; choose another task.'
        )
    if getattr(task, "MULTIMODAL", False):
        raise WinaError(
            f'The task "{task.task_name}" needs images or sound, but the model reads text; choose another task.'
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
