"""Local files of tasks: data in place of the hub's, and task files of the user's folders.

Data are a folder for each task, with a file for each split. A task definition stays as it is; only the source of its
documents changes. For lm-eval's own command line, the equivalent is a task file with `include: <the stock file>`,
`task: <a new name>` and:

    dataset_path: json            # or parquet
    dataset_name: null
    dataset_kwargs: {data_files: {validation: /data/piqa/validation.jsonl}}

Task files are built from the bytes that were judged; their Python runs only with consent.
"""

import contextlib
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pyarrow.parquet
from datasets import Dataset

from wina_core.compute.evaluation.lm_eval_adapter import Entry, TaskIndex, import_stock_function
from wina_core.compute.models.loading import first_line
from wina_core.errors import WinaError
from wina_core.files.user_file import LIMITS, check_file, open_file
from wina_core.model_info.resolve import DATA_SUFFIXES
from wina_core.specs.plugins import task_files
from wina_core.studies.tasks.task_code import check_allowed, code_of
from wina_core.studies.tasks.task_folder import Layer, TaskFolder, TaskFunction, merge

_SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
_MAX_NESTING = 500
_FIELDS = ("doc_to_text", "doc_to_target", "doc_to_choice")


class LocalData:
    """A data folder. Each file is read once for all its tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, Dataset] = {}

    def folder_of(self, task: str) -> Path | None:
        """Return the folder of a task's data: named as the task, or as its longest prefix up to an underscore."""
        words = task.split("_")
        names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
        return next((self.folder / name for name in names if (self.folder / name).is_dir()), None)

    def override(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a task's configuration with its local data, if it has any, in place of the hub's.

        Only the evaluated split must exist; others are for few-shot examples, and empty if missing. Raises WinaError
        for a missing or empty split and an unreadable file.
        """
        task = str(config.get("task"))
        folder = self.folder_of(task)
        if folder is None:
            return config
        if "class" in config:
            raise WinaError(
                f'The task "{task}" is a Python class that reads its data itself, so {folder} cannot stand in for '
                "them; remove that folder or choose another task."
            )
        files = _files(folder)
        evaluated = config.get("test_split") or config.get("validation_split")
        if evaluated is not None and evaluated not in files:
            raise WinaError(
                f'The local data of the task "{task}" in {folder} lack the split "{evaluated}" '
                f"(there is: {', '.join(files) or 'nothing'}); add it as {evaluated}.jsonl or {evaluated}.parquet."
            )
        splits = {name: self._split(path) for name, path in files.items()}
        requested = {config.get(key) for key in _SPLITS} | {(config.get("fewshot_config") or {}).get("split")}
        if evaluated is not None:
            missing = requested - {None} - splits.keys()
            splits |= {str(split): _without_rows(splits[evaluated]) for split in missing}
        replacements = {"custom_dataset": lambda **_: splits, "dataset_path": str(folder), "dataset_name": None}
        return {**config, **replacements, "dataset_kwargs": None}

    def _split(self, path: Path) -> Dataset:
        if path not in self._read:
            self._read[path] = read_documents(path)
        return self._read[path]


def read_documents(path: Path) -> Dataset:
    """Return the documents of a JSONL or Parquet file; raise WinaError if there are none.

    The fingerprint is a hash of the file's bytes: the library's own hash of the table takes far longer.
    """
    try:
        check_file(path, "data file")
        table = _parquet_table(path) if path.suffix == ".parquet" else _json_table(path)
    except (OSError, pyarrow.ArrowException, UnicodeError, OverflowError) as error:
        raise WinaError(f"The data file {path} cannot be read ({first_line(error)}); replace it.") from error
    if not table.num_rows:
        raise WinaError(f"The data file {path} holds no documents; put one on each line, or remove the file.")
    with open_file(path, "data file") as file:
        return Dataset(table, fingerprint=hashlib.file_digest(file, "sha256").hexdigest()[:16])


def check_json_lines(path: Path) -> None:
    """Raise WinaError for a data file with lines that crash Arrow: null, and deeply nested ones."""
    with open_file(path, "data file") as file:
        for number, line in enumerate(file, start=1):
            if line.lstrip(b" \t\xef\xbb\xbf").startswith(b"null"):
                raise WinaError(f"Line {number} of the data file {path} is no JSON object; write one document a line.")
            if line.count(b"[") + line.count(b"{") > _MAX_NESTING:
                try:
                    json.loads(line)
                except RecursionError as error:
                    raise WinaError(f"Line {number} of the data file {path} is nested too deeply.") from error
                except ValueError:  # reported, with its place, by the library that reads the file
                    continue


def check_columns(task: Any, folder: Path) -> None:
    """Raise WinaError if a task's local data lack a column that is needed only later.

    Those are fields named without braces, which lm-eval would take for the text, and columns that score an answer.
    """
    config = task.config
    fields = {value for key in _FIELDS if isinstance(value := getattr(config, key), str) and value.isidentifier()}
    missing = fields - set(task.features)
    # Scoring an empty answer shows the columns that it reads. With `unsafe_code` it would run a program.
    if config.output_type == "generate_until" and callable(config.process_results) and not config.unsafe_code:
        try:
            with contextlib.suppress(LookupError, TypeError, ValueError, ArithmeticError):  # of the empty answer
                config.process_results(_Document(task.task_docs[0]), [""])
        except _MissingColumn as error:
            missing.add(error.args[0])
    if missing:
        raise misfit(task.task_name, folder, f"{', '.join(sorted(missing))} is missing", task.features)


class _MissingColumn(Exception):  # noqa: N818 - caught where it is raised for
    """A read of a column that a document does not have."""


class _Document(dict[str, Any]):
    """A document that distinguishes a missing column from any other missing key."""

    def __missing__(self, key: str) -> Any:
        raise _MissingColumn(key)


def misfit(task: str, folder: Path, reason: str, columns: Iterable[str]) -> WinaError:
    """Return the error of local data that a task cannot use."""
    return WinaError(
        f'The data in {folder} do not fit the task "{task}" ({reason}; there is: {", ".join(sorted(columns))}); name '
        "the columns as the data on the hub do."
    )


def _files(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in DATA_SUFFIXES and path.is_file():
            if path.stem in files:
                raise WinaError(f"Both {files[path.stem]} and {path} hold the same split; remove one of them.")
            files[path.stem] = path
    return files


def _parquet_table(path: Path) -> pyarrow.Table:
    """Return the table of a Parquet file; raise WinaError if it would be too large once unpacked."""
    packed = pyarrow.parquet.ParquetFile(path).metadata
    size = sum(packed.row_group(group).total_byte_size for group in range(packed.num_row_groups))
    if size > LIMITS["data file"]:
        raise WinaError(
            f"The data file {path} unpacks to {size:,} bytes, more than the {LIMITS['data file']:,} that fit into "
            "memory as documents; shorten it."
        )
    return pyarrow.parquet.read_table(path)


def _json_table(path: Path) -> pyarrow.Table:
    rows = []
    with open_file(path, "data file") as file:
        for number, line in enumerate(TextIOWrapper(file, encoding="utf-8-sig"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise WinaError(f"Line {number} of the data file {path} is not JSON ({error}); correct it.") from error
            if not isinstance(row, dict):
                raise WinaError(f"Line {number} of the data file {path} is no JSON object; write one document a line.")
            rows.append(row)
    columns = dict.fromkeys(key for row in rows for key in row)
    return pyarrow.table({column: pyarrow.array([row.get(column) for row in rows]) for column in columns})


def _without_rows(documents: Dataset) -> Dataset:
    return Dataset.from_dict({column: [] for column in documents.column_names}, features=documents.features)


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
        entries: dict[str, Any] = {}
        offered = task_files()
        of_packages = {file.parent for file in offered.values()}
        for folder in self._folders:
            index: dict[str, Any] = {}
            for file in folder.tasks:
                try:
                    TaskIndex.process_cfg(file.config, file.path, index)
                except Exception as error:  # of a file of any shape
                    folder.problems[file.path.name] = str(error)
            all_offered = folder.path not in of_packages
            entries |= {name: entry for name, entry in index.items() if all_offered or name in offered}
        return entries

    @property
    def problem(self) -> str:
        """The first faulty task file and its fault, as a sentence; empty without one."""
        for folder in self._folders:
            for name, reason in folder.problems.items():
                return f"The task file {folder.path / name} is left out: {reason}."
        return ""

    def check(self, entries: Iterable[Entry]) -> None:
        """Raise WinaError if the task files of these entries need code that the user has not allowed."""
        files = [self._files[entry.yaml_path][1] for entry in entries if entry.yaml_path in self._files]
        check_allowed(code_of(self._folders, files), self._allowed)

    def config(self, path: Path) -> dict[str, Any]:
        """Return the configuration of a task file, with functions resolved."""
        folder, file = self._files[path]
        return merge([self._resolved(layer.config, layer, folder) for layer in file.layers])

    def _resolved(self, value: Any, layer: Layer, folder: TaskFolder) -> Any:
        if isinstance(value, TaskFunction):
            if layer.shipped:
                return import_stock_function(str(value), layer.path.parent)
            return self._function(value, layer.path, folder)
        if isinstance(value, dict):
            return {key: self._resolved(entry, layer, folder) for key, entry in value.items()}
        if isinstance(value, list):
            return [self._resolved(entry, layer, folder) for entry in value]
        return value

    def _function(self, name: str, path: Path, folder: TaskFolder) -> Any:
        if self._allowed.get(str(folder.path)) != folder.digest:
            raise WinaError(f"{path} asks for {name}, which was not consented to.")  # `check` says how to
        module, _, function = name.rpartition(".")
        file = Path(os.path.normpath(path.parent / f"{module.replace('.', '/')}.py"))
        inside = file.is_relative_to(folder.path) and file.relative_to(folder.path).as_posix()
        # A module of the folder runs from the bytes that the user consented to, not from the file as it is now.
        if inside and inside in folder.files:
            return getattr(_executed(folder, inside), function)
        return getattr(importlib.import_module(module), function)


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
