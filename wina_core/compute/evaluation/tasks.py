"""Loading of lm-eval tasks: the demo's, those of the user's folders, and the stock ones.

They are made with local data, and with model-written programs in the sandbox.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from datasets.exceptions import DatasetsError

from wina_core.compute.evaluation import local_data
from wina_core.compute.evaluation.lm_eval_adapter import (
    STOCK_FOLDER,
    ConfigurableTask,
    Entry,
    Kind,
    TaskFactory,
    TaskManager,
    entry_of,
    filter_names,
    index_of,
    load_yaml,
    metric_name,
    metric_registry,
    use_factory,
)
from wina_core.compute.evaluation.local_data import LocalData, UserTasks
from wina_core.compute.models.loading import first_line
from wina_core.compute.sandbox.runner import runs_in_sandbox, sandboxed
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.model_info.resolve import data_folder as local_data_folder
from wina_core.specs import EvaluationSpec
from wina_core.studies.tasks.check_runs import unknown_metric, unknown_task
from wina_core.studies.tasks.task_code import FORMATS
from wina_core.studies.tasks.task_folder import RISK, is_shipped, member_names, runs_programs

_LEAVES = (Kind.TASK, Kind.PY_TASK)
_MAX_TASKS, _MAX_GROUP_DEPTH = 20_000, 50
"""Limits of tasks that one name may expand to, more than all of lm-eval's, and of levels of groups."""
_SCRIPTS = ("accuracy", "bertscore", "bleu", "bleurt", "code_eval", "f1", "rouge", "squad_v2")
"""Metrics that lm-eval's tasks load from the package evaluate, which prefers a script in the current folder."""
_NO_CODE: Mapping[str, str] = MappingProxyType({})


def check_tasks(
    spec: EvaluationSpec,
    run_model_code: bool = False,
    metrics: Mapping[str, str] = MappingProxyType({}),
    task_code: Mapping[str, str] = _NO_CODE,
) -> None:
    """Load every task's definition and data, so that mistakes show before any model is loaded.

    Raises WinaError for an unknown task (with close matches), missing data or columns, a task that runs model-written
    programs without consent (`run_model_code`) or where they cannot be confined, a task whose folder asks for code at
    another digest than that of `task_code`, an unsupported task, and a task without the metric that `metrics` names.
    Nothing of any task is built before all were found to have consent.
    """
    user_tasks = UserTasks(spec.task_folders, task_code)
    managers = {name: _task_manager(name, user_tasks, run_model_code) for name in spec.task_names}
    for name, manager in managers.items():
        loaded = _build(name, manager, user_tasks, spec.data_folder, run_model_code)
        for task in loaded["tasks"].values():
            _check_examples(task, spec.task(name).num_fewshot)
        offered = metrics_of(loaded["tasks"].values())
        if name in metrics and offered and metrics[name] not in offered:
            raise WinaError(unknown_metric(name, metrics[name], offered))


def metrics_of(tasks: Iterable[Any]) -> tuple[str, ...]:
    """Return the metric names of loaded tasks; empty if only their results show them.

    lm-eval's own metrics are named as in the task's file, once for each filter. Functions that score a document, and
    tasks in Python, name theirs in their results.
    """
    names: dict[str, None] = {}
    for task in tasks:
        if type(task) is not ConfigurableTask or task.config.process_results is not None:
            return ()
        listed = task.config.metric_list or ()
        if any(metric["metric"] not in metric_registry or metric.get("hf_evaluate") for metric in listed):
            return ()
        filters = filter_names(task)
        metrics = task.aggregation()
        names |= dict.fromkeys(metric_name(metric, filter_name) for metric in metrics for filter_name in filters)
    return tuple(names)


def load_task(
    name: str,
    folders: Sequence[str] = (),
    data_folder: str | None = None,
    run_model_code: bool = False,
    task_code: Mapping[str, str] = _NO_CODE,
) -> Any:
    """Return lm-eval's dictionary {"tasks", "groups", "group_map"} of a task, group or tag; raise like `check_tasks`.

    A task in the given folders precedes a stock one of the same name. Relative `data_files` of a task file are found in
    the file's folder, or else in the current one, as in lm-eval. Tasks with data in `data_folder` (see EvaluationSpec)
    read them there instead of on the hub. `task_code` are the digests of the task folders whose code may run.
    """
    user_tasks = UserTasks(folders, task_code)
    return _build(name, _task_manager(name, user_tasks, run_model_code), user_tasks, data_folder, run_model_code)


def _build(
    name: str, manager: TaskManager, user_tasks: UserTasks, data_folder: str | None, run_model_code: bool
) -> Any:
    data = None if data_folder is None else LocalData(local_data_folder(data_folder))
    use_factory(manager, Factory(data, user_tasks))
    try:
        with sandboxed() if run_model_code else nullcontext():
            loaded = manager.load([name])
    except WinaError:
        raise
    except ImportError as error:
        raise WinaError(
            f'The task "{name}" needs a Python package that is missing ({first_line(error)}); install it with pip '
            '(for LongBench, "wina-workbench[longbench]") and try again.'
        ) from error
    except UNREACHABLE as error:
        raise WinaError(
            f'The data of the task "{name}" cannot be had ({first_line(error)}); run the task once while online, '
            "or point to local data: in the task's file, or in a data folder, as a folder of the task's name with a "
            "file for each split, such as validation.jsonl."
        ) from error
    except Exception as error:  # task files are the user's, and their mistakes come as any exception
        raise WinaError(
            f'The task "{name}" cannot be built ({first_line(error)}); correct its task file or choose another task.'
        ) from error
    for task in loaded["tasks"].values():
        check_confined(task)
        if getattr(task, "MULTIMODAL", False):
            raise WinaError(
                f'The task "{task.task_name}" needs images or sound, but the model reads text; choose another task.'
            )
    return loaded


def _task_manager(name: str, user_tasks: UserTasks, run_model_code: bool) -> TaskManager:
    """Return lm-eval's manager of a task and its members, in a fraction of a second.

    Reads files and runs nothing. Raises WinaError for an unknown name, and for code without consent.
    """
    for script in (Path(metric, f"{metric}.py") for metric in _SCRIPTS):
        if script.is_file():
            raise WinaError(f"The current folder has {script}, which would run as a metric; start in another folder.")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # its remarks on task files are not for our users
    manager = TaskManager(include_defaults=False, include_path=str(resources_folder() / "demo" / "tasks"))
    index = manager.task_index
    index.update(user_tasks.index)
    entry = index.get(name)
    if entry is None:
        paths = _stock_paths()
        if name not in paths:
            raise WinaError(" ".join(filter(None, (unknown_task(name, {*index, *paths}), user_tasks.problem))))
        if paths[name] and is_shipped(STOCK_FOLDER / paths[name]):  # the paths are read from a cache
            entry = index[name] = entry_of(name, STOCK_FOLDER / paths[name])
    _add_members(name, index, user_tasks)
    reached = _reached(name, index)
    user_tasks.check(reached.values())
    if not run_model_code:
        for member, member_entry in reached.items():
            if runs_programs(_config(member_entry)):
                raise WinaError(
                    f'The task "{member}" runs programs that the model writes, and this was not consented to. {RISK} '
                    "Consent for one run by the option confirm-run-unsafe-code, or in the window by its box."
                )
    return manager


def _add_members(name: str, index: dict[str, Entry], user_tasks: UserTasks) -> None:
    """Add the stock tasks that a group or tag names to the index, which has no entry if its file is unknown.

    Most groups lie in one folder with all their tasks; only for others all stock files are read, which is slow.
    """
    entry = index.get(name)
    if entry is not None and entry.yaml_path and entry.yaml_path not in user_tasks and entry.kind not in _LEAVES:
        for member, beside in index_of(entry.yaml_path.parent).items():
            index.setdefault(member, beside)
    missing = _unknown(name, index)
    if missing and not missing.isdisjoint(_stock_paths()):  # others are inlined
        for member, stock in _stock_index().items():
            index.setdefault(member, stock)


def _reached(name: str, index: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that a name expands to, itself included, by name.

    Raises WinaError for a group that contains itself, and for one of too many tasks.
    """
    sizes: dict[str, int] = {}

    def size(group: str, above: tuple[str, ...]) -> int:
        if group in above or len(above) > _MAX_GROUP_DEPTH:
            fault = "contains itself" if group in above else f"lies in more than {_MAX_GROUP_DEPTH} others"
            raise WinaError(f'The group "{group}" {fault}; correct its task file.')
        if group not in sizes and group in index:
            sizes[group] = 1 + sum(size(member, (*above, group)) for member in _members(index[group]))
            if sizes[group] > _MAX_TASKS:
                raise WinaError(f'The group "{group}" has more than {_MAX_TASKS:,} tasks; correct its task file.')
        return sizes.get(group, 1)

    size(name, ())
    return {member: index[member] for member in sizes}


def _unknown(name: str, index: Mapping[str, Entry]) -> set[str]:
    """Return the names without an entry among those that a name expands to."""
    reached = _reached(name, index)
    return {member for entry in reached.values() for member in _members(entry)} - reached.keys() | (
        {name} - reached.keys()
    )


def _members(entry: Entry) -> list[str]:
    if entry.kind == Kind.TAG:
        return sorted(entry.tags)
    return member_names(_config(entry)) if entry.kind == Kind.GROUP else []


def _config(entry: Entry) -> Mapping[str, Any]:
    return entry.cfg or (load_yaml(entry.yaml_path, resolve_func=False) if entry.yaml_path else {})


def _stock_index() -> Mapping[str, Entry]:
    """Return all stock tasks; reading their files takes about 17 s."""
    # Imported here: the module is also run as a program, and must not be loaded before that.
    from wina_core.compute.evaluation.index import stock_entries

    return stock_entries()


def _stock_paths() -> Mapping[str, str]:
    """Return {stock name: task file in lm-eval's task folder, "" for groups and tags}, cached between starts."""
    from wina_core.compute.evaluation.index import stock_index

    return {entry.name: entry.path for entry in stock_index().entries}


def _check_examples(task: Any, num_fewshot: int | None) -> None:
    """Raise WinaError if the data have fewer examples than the prompt needs; a task that fixes them at 0 has 0."""
    fixed = task.get_config("num_fewshot")
    needed = num_fewshot if num_fewshot is not None and fixed != 0 else fixed or 0
    sampler = getattr(task, "sampler", None)
    if needed == 0 or sampler is None:
        return
    available = len(sampler.df)
    if available < needed:
        raise WinaError(
            f'The task "{task.task_name}" is to show {needed} examples in its prompt, but its data have {available} '
            "for that; choose fewer (0 needs none), or add the split that they are drawn from."
        )


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
        is_users = entry.yaml_path in self._user_tasks
        judged = replace(entry, yaml_path=None, cfg=self._user_tasks.config(entry.yaml_path)) if is_users else entry
        config = super()._load_full_config(judged, overrides)
        if (entry.cfg or {}).get("unsafe_code", False) is not False:
            config["unsafe_code"] = True  # a group's overrides must not clear it
        arguments = config.get("dataset_kwargs") or {}
        if entry.yaml_path and "data_files" in arguments:
            folder = Path(entry.yaml_path).parent
            config["dataset_kwargs"] = arguments | {"data_files": _made_absolute(arguments["data_files"], folder)}
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
            if folder is None:
                raise
            splits = self._config["custom_dataset"]()
            columns = {column for split in splits.values() for column in split.column_names}
            raise local_data.misfit(str(self._config["task"]), folder, first_line(error), columns) from error
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


def _made_absolute(files: Any, folder: Path) -> Any:
    """Return the file, list or mapping of files with those that exist in `folder` made absolute."""
    if isinstance(files, Mapping):
        return {key: _made_absolute(value, folder) for key, value in files.items()}
    if isinstance(files, list):
        return [_made_absolute(value, folder) for value in files]
    path = (folder / str(files)).resolve()
    return str(path) if path.exists() else files


def _paths(files: Any) -> Iterator[Path]:
    """Yield the files, list or mapping of files that exist."""
    if isinstance(files, Mapping | list):
        for entry in files.values() if isinstance(files, Mapping) else files:
            yield from _paths(entry)
    elif Path(str(files)).is_file():
        yield Path(str(files))
