"""Construction of lm-eval tasks with local data, and with model-written programs in the sandbox."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets.exceptions import DatasetsError

from wina_core.compute.evaluation import local_data
from wina_core.compute.evaluation.lm_eval_adapter import Entry, TaskFactory
from wina_core.compute.evaluation.local_data import LocalData
from wina_core.compute.evaluation.user_tasks import UserTasks
from wina_core.compute.models.loading import first_line
from wina_core.compute.sandbox.code_eval import runs_in_sandbox
from wina_core.errors import WinaError
from wina_core.studies.tasks.task_code import FORMATS

_log = logging.getLogger(__name__)
UNREACHABLE = (OSError, RuntimeError, DatasetsError)
"""Errors of data that are neither here nor on the hub."""


class Factory(TaskFactory):
    """Task factory of the user's task files, as they were judged, and of lm-eval's.

    It resolves relative data files beside the task file and data in a data folder.
    """

    def __init__(self, data: LocalData | None, user_tasks: UserTasks) -> None:
        super().__init__()
        self._data = data
        self._user_tasks = user_tasks
        self._config: dict[str, Any] = {}
        """Configuration of the task being built."""

    def _load_full_config(self, entry: Entry, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
        own = entry.yaml_path in self._user_tasks
        judged = replace(entry, yaml_path=None, cfg=self._user_tasks.config(entry.yaml_path)) if own else entry
        config = super()._load_full_config(judged, overrides)
        if (entry.cfg or {}).get("unsafe_code", False) is not False:
            config["unsafe_code"] = True  # which no group takes back
        arguments = config.get("dataset_kwargs") or {}
        if entry.yaml_path and "data_files" in arguments:
            folder = Path(entry.yaml_path).parent
            config["dataset_kwargs"] = arguments | {"data_files": _beside(arguments["data_files"], folder)}
            if config.get("dataset_path") == "json":
                for path in _paths(config["dataset_kwargs"]["data_files"]):
                    local_data.check_json_lines(path)
        if self._data is not None and "group" not in config:
            on_the_hub = config.get("custom_dataset") is None and config.get("dataset_path") not in FORMATS
            if on_the_hub and self._data.folder_of(str(config.get("task"))) is None:
                _log.warning("The data folder holds nothing of the task %s, whose data are the hub's.", config["task"])
            config = self._data.override(config)
        self._config = config
        return config

    def _build_task(self, entry: Entry, overrides: dict[str, Any] | None) -> Any:
        try:
            task = super()._build_task(entry, overrides)
        except WinaError:
            raise
        except Exception as error:
            folder = self._local_folder()
            explained = folder and local_data.explained(error, self._config, folder)
            if explained:
                raise explained from error
            if self._data is not None and folder is None and isinstance(error, UNREACHABLE):
                raise WinaError(
                    f'The data folder {self._data.folder} holds nothing of the task "{self._config.get("task")}", and '
                    f"its data on the hub cannot be had ({first_line(error)}); add a folder of the task's name with a "
                    "file for each split, such as validation.jsonl."
                ) from error
            raise
        folder = self._local_folder()
        if folder is not None:
            local_data.check_columns(task, folder)
        return task

    def _local_folder(self) -> Path | None:
        return None if self._data is None else self._data.folder_of(str(self._config.get("task")))


def check_confined(task: Any) -> None:
    """Raise WinaError if a task runs model-written programs and not by the metric code_eval, which has a sandbox."""
    if not getattr(task, "UNSAFE_CODE", False):
        return
    scorers = [metric["metric"] for metric in task.config.metric_list or () if callable(metric["metric"])]
    if callable(task.config.process_results):
        scorers.append(task.config.process_results)
    if not scorers or not all(runs_in_sandbox(scorer) for scorer in scorers):
        raise WinaError(
            f'The task "{task.task_name}" runs programs that the model writes by itself and not by the metric '
            "code_eval, so that they cannot be put into a sandbox; choose another task."
        )


def _beside(files: Any, folder: Path) -> Any:
    """Return the file, list or mapping of files with those that exist in `folder` made absolute."""
    if isinstance(files, Mapping):
        return {key: _beside(value, folder) for key, value in files.items()}
    if isinstance(files, list):
        return [_beside(value, folder) for value in files]
    found = (folder / str(files)).resolve()
    return str(found) if found.exists() else files


def _paths(files: Any) -> Iterator[Path]:
    """Yield the files, list or mapping of files that exist."""
    if isinstance(files, Mapping | list):
        for each in files.values() if isinstance(files, Mapping) else files:
            yield from _paths(each)
    elif Path(str(files)).is_file():
        yield Path(str(files))
