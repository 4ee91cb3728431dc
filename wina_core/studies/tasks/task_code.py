"""Consent to run the code of task folders: asked of the user once for each folder and content, given by no file."""

import datetime
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.paths import config_folder
from wina_core.files.tables import write_atomically
from wina_core.jobs import PendingRun
from wina_core.studies.tasks.task_folder import TaskFile, TaskFolder, TaskFunction, member_names

TASK_CODE_RISK = "This code runs with all of your rights; trust it only if you know where it comes from."
"""Shown with every request for consent to run the code of a task folder."""
_LISTED = 12


@dataclass(frozen=True)
class TaskCode:
    """Code that the tasks of a folder request."""

    folder: str
    digest: str
    requests: tuple[tuple[str, str], ...]
    """(file, line) of each value that asks for code."""
    files: Mapping[str, str]
    """Texts of the folder's Python files and of the task files that ask, by their path in the folder."""

    def refusal(self) -> str:
        """Return the sentences that refuse this code: what it is, and how to allow it."""
        lines = [f"{file}: {line}" for file, line in self.requests]
        more = [f"and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        python = [name for name in self.files if name.endswith(".py")]
        refusal = (
            f"The task folder {self.folder} asks to run code, and this was not consented to: "
            f"{'; '.join(lines[:_LISTED] + more)}. Its Python files: {', '.join(python[:_LISTED]) or 'none'}. "
            f"Its digest: {self.digest[:16]}. {TASK_CODE_RISK} "
            "Consent for one run by the option trust-task-code, or in the window, which asks."
        )
        return "".join(character if character.isprintable() else "?" for character in refusal)  # for a terminal


class TaskCodeError(WinaError):
    """Code of task folders without consent."""

    def __init__(self, codes: Sequence[TaskCode]) -> None:
        super().__init__(" ".join(code.refusal() for code in codes))
        self.codes = tuple(codes)


def requested_code(runs: Iterable[PendingRun]) -> tuple[TaskCode, ...]:
    """Return the code that the missing tasks of runs ask for, by folder; reads files and runs nothing.

    Raises WinaError for a task folder that cannot be read.
    """
    requested: dict[tuple[str, ...], set[str]] = {}
    for run in runs:
        evaluation = run.spec.evaluation
        missing_tasks = set(evaluation.task_names) & set(run.units)
        if evaluation.task_folders and missing_tasks:
            requested.setdefault(evaluation.task_folders, set()).update(missing_tasks)
    code_by_folder: dict[str, TaskCode] = {}
    for folders, names in requested.items():
        read = [TaskFolder(folder) for folder in folders]
        for code in code_of(read, _selectable_files(read, names)):
            code_by_folder[code.folder] = code
    return tuple(code_by_folder.values())


def task_code(runs: Iterable[PendingRun], trusted: bool = False) -> dict[str, str]:
    """Return the digests of the task folders whose code may run: the stored consents, or with `trusted` all requested.

    Raises WinaError for requested code without consent.
    """
    codes = requested_code(runs)
    allowed = {code.folder: code.digest for code in codes} if trusted else allowed_code()
    check_allowed(codes, allowed)
    return {code.folder: code.digest for code in codes}


def code_of(folders: Sequence[TaskFolder], files: Iterable[TaskFile]) -> tuple[TaskCode, ...]:
    """Return the code that these files of the folders ask for, by folder."""
    requests = {file.path: lines for file in files if (lines := code_requests(file))}
    return tuple(
        TaskCode(
            folder=str(folder.path),
            digest=folder.digest,
            requests=tuple((_name(folder, path), line) for path in asking for line in requests[path]),
            files={
                name: content.decode("utf-8", "replace")
                for name, content in folder.files.items()
                if name.endswith(".py") or folder.path / name in asking
            },
        )
        for folder in folders
        if (asking := [path for path in requests if path.is_relative_to(folder.path)])
    )


def not_allowed(codes: Iterable[TaskCode], allowed: Mapping[str, str]) -> tuple[TaskCode, ...]:
    return tuple(code for code in codes if allowed.get(code.folder) != code.digest)


def check_allowed(codes: Iterable[TaskCode], allowed: Mapping[str, str]) -> None:
    """Raise WinaError for code without consent."""
    refused = not_allowed(codes, allowed)
    if refused:
        raise TaskCodeError(refused)


def allow(codes: Iterable[TaskCode]) -> None:
    """Store the user's consent to these contents of these folders; WinaError where it cannot be written."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    consents = _read_consents() | {code.folder: {"digest": code.digest, "date": today} for code in codes}
    write_atomically(_consents_file(), json.dumps({"folders": consents}, indent=1).encode(), private=True)


def allowed_code() -> dict[str, str]:
    return {folder: str(consent["digest"]) for folder, consent in _read_consents().items()}


def _read_consents() -> dict[str, dict[str, Any]]:
    """Return the digest and the date of each folder's consent, without damaged ones."""
    try:
        folders = json.loads(_consents_file().read_text(encoding="utf-8"))["folders"]
        return {folder: entry for folder, entry in folders.items() if isinstance(entry, dict) and "digest" in entry}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # the user is asked again


def _consents_file() -> Path:
    return config_folder() / "trusted-task-code.json"


def _selectable_files(folders: Sequence[TaskFolder], names: Iterable[str]) -> list[TaskFile]:
    """Return the folders' files that the names may select."""
    by_name: dict[str, list[TaskFile]] = {}
    for file in (file for folder in folders for file in folder.tasks):
        for name in _defined_names(file.config):
            by_name.setdefault(name, []).append(file)
    reached: dict[Path, TaskFile] = {}
    left = list(names)
    while left:
        name = left.pop()
        files = by_name.get(name)
        # A name that no file defines is lm-eval's, and any task of the folders may replace one of its members.
        for file in chain.from_iterable(by_name.values()) if files is None else files:
            if file.path not in reached:
                reached[file.path] = file
                left += member_names(file.config)
    return list(reached.values())


def _defined_names(config: Mapping[str, Any]) -> list[str]:
    tags = config.get("tag") or ()
    main_name = config.get("group") if "group" in config and "class" not in config else config.get("task")
    return [str(name) for name in (main_name, *([tags] if isinstance(tags, str) else tags)) if isinstance(name, str)]


def _name(folder: TaskFolder, path: Path) -> str:
    return path.relative_to(folder.path).as_posix()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORMATS = ("json", "csv", "parquet", "text")
"""Readers of the package datasets for the user's files that only read them."""
METRICS = _words(
    "acc acc_all acc_bytes acc_mutual_info acc_norm bits_per_byte bleu brier_score bypass byte_perplexity chrf chrf++ "
    "exact_match f1 likelihood mcc perplexity ter word_perplexity"
)
"""lm-eval's own metrics. Of any other name, the package evaluate runs a script, also of a folder of that name."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_DATASET_OPTIONS = _words(
    "column_names data_dir data_files delimiter encoding field header keep_in_memory names quotechar revision sep "
    "skiprows split streaming trust_remote_code verification_mode"
)
"""Options of `datasets.load_dataset` that only choose and read; trust_remote_code has no effect on it."""
_GENERATION_OPTIONS = _words(
    "do_sample early_stopping length_penalty max_completion_tokens max_gen_toks max_length max_new_tokens max_tokens "
    "min_p no_repeat_ngram_size num_beams repetition_penalty temperature top_k top_p typical_p until"
)
"""Others of `generate` name models and programs: custom_generate, assistant_model."""
_SCHEMES = ("http", "https", "hf")


def code_requests(file: TaskFile) -> tuple[str, ...]:
    """Return the lines of a user's task file that need consent, as "key: value"; lm-eval's own lines need none."""
    configs = [layer.config for layer in file.layers if not layer.shipped]
    on_shipped = len(configs) < len(file.layers)
    return tuple(dict.fromkeys(line for config in configs for line in _requests(config, on_shipped)))


def _requests(config: Mapping[str, Any], on_shipped: bool) -> Iterator[str]:
    for key, function in _functions(config, ""):
        yield f"{key}: !function {function}"
    if "class" in config and not isinstance(config["class"], TaskFunction):
        yield _line("class", config["class"])
    path = config.get("dataset_path")
    if path is not None and not isinstance(path, TaskFunction) and not _only_reads(str(path)):
        yield _line("dataset_path", path)
    yield from _of_options("dataset_kwargs", config.get("dataset_kwargs"), _DATASET_OPTIONS)
    yield from _of_options("generation_kwargs", config.get("generation_kwargs"), _GENERATION_OPTIONS)
    if on_shipped:  # whose functions may take more for names of programs
        yield from _of_options("metadata", config.get("metadata"), frozenset(["version"]))
    own_scores = isinstance(config.get("process_results"), TaskFunction)  # which name their metrics as they like
    for metric in () if own_scores else _list(config.get("metric_list")):
        named = metric if isinstance(metric, Mapping) else {"metric": metric}
        name = named.get("metric")
        if not isinstance(name, TaskFunction) and (str(name) not in METRICS or named.get("hf_evaluate")):
            yield _line("metric", name)
    prompt = config.get("use_prompt")
    if prompt is not None and not str(prompt).startswith("qa-basic:"):
        yield _line("use_prompt", prompt)
    for member in _list(config.get("task")):
        if isinstance(member, Mapping):  # which may change a task of lm-eval
            yield from _requests(member, on_shipped=True)


def _functions(value: object, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, TaskFunction):
        yield key, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _functions(member, str(name))
    elif isinstance(value, (list, tuple, set)):
        for member in value:
            yield from _functions(member, key)


def _of_options(name: str, options: object, harmless: frozenset[str]) -> Iterator[str]:
    if not isinstance(options, Mapping):
        return
    for key, value in options.items():
        if not isinstance(value, TaskFunction) and key not in harmless:
            yield _line(f"{name}.{key}", value)
    for key in ("data_files", "data_dir"):
        for location in _strings(options.get(key)):
            scheme, separator, _ = location.partition("://")
            if "::" in location or (separator and scheme not in _SCHEMES):
                yield _line(f"{name}.{key}", location)


def _only_reads(path: str) -> bool:
    if path in FORMATS:
        return True
    return _HUB_ID.fullmatch(path) is not None and path not in _readers()


@cache
def _readers() -> frozenset[str]:
    """Return the names of all readers of the package datasets, some of which load programs."""
    spec = find_spec("datasets")  # which is not imported: it takes seconds
    assert spec is not None
    assert spec.origin is not None
    return frozenset(reader.name for reader in (Path(spec.origin).parent / "packaged_modules").iterdir())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for member in value:
            yield from _strings(member)
    elif value is not None:
        yield str(value)


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _line(key: str, value: object) -> str:
    text = " ".join(str(value).split())
    return f"{key}: {text if len(text) <= 120 else f'{text[:120]}...'}"
