"""Task files of the user's folders, built from the bytes that were judged; their Python only with consent."""

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from wina_core.compute.evaluation.lm_eval_adapter import Entry, TaskIndex, import_stock_function
from wina_core.errors import WinaError
from wina_core.specs.plugins import task_files
from wina_core.studies.tasks.task_code import check_allowed, code_of
from wina_core.studies.tasks.task_folder import Function, Layer, TaskFolder, merge


class UserTasks:
    """The tasks of some folders."""

    def __init__(self, folders: Sequence[str], task_code: Mapping[str, str]) -> None:
        """Read the folders; `task_code` are the digests that the user allowed, by folder."""
        self._folders = [TaskFolder(folder) for folder in folders]
        self._allowed = task_code
        self._files = {file.path: (folder, file) for folder in self._folders for file in folder.tasks}

    def __contains__(self, path: Path | None) -> bool:
        return path in self._files

    @property
    def index(self) -> dict[str, Any]:
        """lm-eval's index of the tasks: in a folder the first of a name holds, among folders the last.

        Of an installed package's folder it has the tasks that the package offers, and no others: those may be named as
        lm-eval's own.
        """
        found: dict[str, Any] = {}
        offered = task_files()
        of_packages = {file.parent for file in offered.values()}
        for folder in self._folders:
            index: dict[str, Any] = {}
            for file in folder.tasks:
                try:
                    TaskIndex.process_cfg(file.config, file.path, index)
                except Exception as error:  # of a file of any shape
                    folder.problems[file.path.name] = str(error)
            found |= {name: entry for name, entry in index.items() if folder.path not in of_packages or name in offered}
        return found

    @property
    def problem(self) -> str:
        """The reason why the first of the faulty task files is none; empty if all are."""
        for folder in self._folders:
            for name, reason in folder.problems.items():
                return f"The task file {folder.path / name} is left out: {reason}."
        return ""

    def check(self, entries: Iterable[Entry]) -> None:
        """Raise WinaError if the task files of these entries ask for code without consent."""
        files = [self._files[entry.yaml_path][1] for entry in entries if entry.yaml_path in self._files]
        check_allowed(code_of(self._folders, files), self._allowed)

    def config(self, path: Path) -> dict[str, Any]:
        """Return the configuration of a task file with its functions in place of their names."""
        folder, file = self._files[path]
        return merge([self._resolved(layer.config, layer, folder) for layer in file.layers])

    def _resolved(self, value: Any, layer: Layer, folder: TaskFolder) -> Any:
        if isinstance(value, Function):
            if layer.shipped:
                return import_stock_function(str(value), layer.path.parent)
            return self._function(value, layer.path, folder)
        if isinstance(value, dict):
            return {key: self._resolved(each, layer, folder) for key, each in value.items()}
        if isinstance(value, list):
            return [self._resolved(each, layer, folder) for each in value]
        return value

    def _function(self, name: str, path: Path, folder: TaskFolder) -> Any:
        if self._allowed.get(str(folder.path)) != folder.digest:
            raise WinaError(f"{path} asks for {name}, which was not consented to.")  # `check` says how to
        module, _, function = name.rpartition(".")
        file = Path(os.path.normpath(path.parent / f"{module.replace('.', '/')}.py"))
        inside = file.is_relative_to(folder.path) and file.relative_to(folder.path).as_posix()
        found = _executed(folder, inside) if inside and inside in folder.files else importlib.import_module(module)
        return getattr(found, function)


def _executed(folder: TaskFolder, name: str) -> ModuleType:
    """Return a folder's Python file as a module, from the bytes that were hashed; executed once for each content."""
    identity = f"wina_task_code.{folder.digest}.{name.removesuffix('.py').replace('/', '.')}"
    if identity not in sys.modules:
        module = ModuleType(identity)
        module.__file__ = str(folder.path / name)
        sys.modules[identity] = module  # before it is executed, as dataclasses need
        try:
            exec(compile(folder.files[name], module.__file__, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[identity]
            raise
    return sys.modules[identity]
