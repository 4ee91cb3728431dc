"""Loading of lm-eval tasks: the demo's, those of the user's folders, and the stock ones."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any

from datasets.exceptions import DatasetsError

from wina_core.compute.evaluation.factory import Factory
from wina_core.compute.evaluation.lm_eval_adapter import (
    STOCK_FOLDER,
    ConfigurableTask,
    Entry,
    Kind,
    TaskManager,
    entry_of,
    filter_names,
    index_of,
    load_yaml,
    metric_registry,
    use_factory,
)
from wina_core.compute.evaluation.local_data import LocalData
from wina_core.compute.evaluation.samples import metric_name
from wina_core.compute.models.loading import first_line
from wina_core.compute.sandbox.code_eval import sandboxed
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.sources.resolve import data_folder as local_data_folder
from wina_core.specs import EvaluationSpec
from wina_core.tasks.check_names import unknown_metric, unknown_task

_LEAVES = (Kind.TASK, Kind.PY_TASK)
_LONGBENCH_PACKAGES = ("jieba", "fuzzywuzzy", "rouge")


def check_tasks(
    spec: EvaluationSpec, run_model_code: bool = False, metrics: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Load every task's definition and data, so that mistakes show before any model is loaded.

    Raises WinaError for an unknown task (with close matches), missing data or columns, a task that runs model-written
    programs without consent (`run_model_code`) or where they cannot be confined, an unsupported task, and a task
    without the metric that `metrics` names for it.
    """
    for name in spec.task_names:
        loaded = load_task(name, spec.task_folders, spec.data_folder, run_model_code)
        for task in loaded["tasks"].values():
            _check_examples(task, spec.task(name).num_fewshot)
        found = metrics_of(loaded["tasks"].values())
        if name in metrics and found and metrics[name] not in found:
            raise WinaError(unknown_metric(name, metrics[name], found))


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
        if any(each["metric"] not in metric_registry or each.get("hf_evaluate") for each in listed):
            return ()
        filters = filter_names(task)
        names |= dict.fromkeys(metric_name(metric, each) for metric in task.aggregation() for each in filters)
    return tuple(names)


def load_task(
    name: str, folders: Sequence[str] = (), data_folder: str | None = None, run_model_code: bool = False
) -> Any:
    """Return lm-eval's dictionary {"tasks", "groups", "group_map"} of a task, group or tag; raise like `check_tasks`.

    A task in the given folders precedes a stock one of the same name. Relative `data_files` of a task file are found in
    the file's folder, or else in the current one, as in lm-eval. Tasks with data in `data_folder` (see EvaluationSpec)
    read them there instead of on the hub.
    """
    data = None if data_folder is None else LocalData(local_data_folder(data_folder))
    manager = _manager(folders)
    use_factory(manager, Factory(data, run_model_code))
    entry = manager.task_index.get(name)
    if entry is None:
        paths = _stock_paths()
        if name not in paths:
            raise WinaError(unknown_task(name, {*manager.task_index, *paths}))
        if paths[name]:
            entry = entry_of(name, STOCK_FOLDER / paths[name])
            manager.task_index[name] = entry
    _add_members(manager, entry)
    try:
        with sandboxed() if run_model_code else nullcontext():
            loaded = manager.load([name])
    except WinaError:
        raise
    except ImportError as error:
        raise WinaError(_missing_package(name, error)) from error
    except (OSError, RuntimeError, DatasetsError) as error:
        raise WinaError(
            f'The data of the task "{name}" cannot be had ({first_line(error)}); run the task once while online, '
            "or point to a local data file: in the task's file, or as a file for each split in a data folder."
        ) from error
    except Exception as error:  # task files are the user's, and their mistakes come as any exception
        raise WinaError(
            f'The task "{name}" cannot be built ({first_line(error)}); correct its task file or choose another task.'
        ) from error
    for task in loaded["tasks"].values():
        if getattr(task, "MULTIMODAL", False):
            raise WinaError(
                f'The task "{task.task_name}" needs images or sound, but the model reads text; choose another task.'
            )
    return loaded


def _add_members(manager: TaskManager, entry: Entry | None) -> None:
    """Add the stock tasks that a group or tag names to the manager; `entry` is None if its file is unknown.

    Most groups lie in one folder with all their tasks; only for others all stock files are read, which is slow.
    """
    if entry is not None and entry.yaml_path is not None and entry.kind not in _LEAVES:
        for member, beside in index_of(entry.yaml_path.parent).items():
            manager.task_index.setdefault(member, beside)
    if entry is None or not _is_complete(entry, manager.task_index):
        for member, stock in _stock_index().items():
            manager.task_index.setdefault(member, stock)


def _is_complete(entry: Entry, index: Mapping[str, Entry]) -> bool:
    return all(member in index and _is_complete(index[member], index) for member in _members(entry))


def _members(entry: Entry) -> Iterator[str]:
    if entry.kind == Kind.TAG:
        yield from entry.tags
    elif entry.kind == Kind.GROUP:
        config = entry.cfg or load_yaml(entry.yaml_path, resolve_func=False)
        for member in config.get("task") or ():
            yield member if isinstance(member, str) else str(member.get("group") or member.get("task"))


def _manager(folders: Sequence[str]) -> TaskManager:
    """Return lm-eval's manager of the demo's tasks and the given folders only, in a fraction of a second."""
    paths = [resources_folder() / "demo" / "tasks", *(Path(folder).expanduser().resolve() for folder in folders)]
    for path in paths:
        if not path.is_dir():
            raise WinaError(f"The task folder {path} does not exist; correct it or leave it out.")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # its remarks on task files are not for our users
    return TaskManager(include_defaults=False, include_path=[str(path) for path in paths])


def _stock_index() -> Mapping[str, Entry]:
    """Return all stock tasks; reading their files takes about 17 s."""
    from wina_core.compute.evaluation.index import stock_entries  # which is also run as a program

    return stock_entries()


def _stock_paths() -> Mapping[str, str]:
    """Return {stock name: task file in lm-eval's task folder, "" for groups and tags}, cached between starts."""
    from wina_core.compute.evaluation.index import stock_index

    return {entry.name: entry.path for entry in stock_index().entries}


def _check_examples(task: Any, num_fewshot: int | None) -> None:
    """Raise WinaError if the data have fewer examples than the prompt needs; a task that fixes them at 0 has 0."""
    own = task.get_config("num_fewshot")
    wanted = num_fewshot if num_fewshot is not None and own != 0 else own or 0
    sampler = getattr(task, "sampler", None)
    if wanted == 0 or sampler is None:
        return
    found = len(sampler.df)
    if found < wanted:
        raise WinaError(
            f'The task "{task.task_name}" is to show {wanted} examples in its prompt, but its data have {found} for '
            "that; choose fewer (0 needs none), or add the split that they are drawn from."
        )


def _missing_package(task: str, error: ImportError) -> str:
    """Return the error for a missing package. Some tasks catch the ImportError and raise one without a name."""
    cause = error.__context__ if error.name is None else error
    package = cause.name if isinstance(cause, ImportError) else None
    if package in _LONGBENCH_PACKAGES:
        return f'The task "{task}" needs more packages; install them by pip install "wina-workbench[longbench]".'
    if package is None:
        return f'The task "{task}" cannot be imported ({first_line(error)}); install what it needs and try again.'
    return f'The task "{task}" needs the Python package {package}; install it with pip and try again.'
