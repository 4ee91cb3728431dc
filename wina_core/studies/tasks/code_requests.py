"""Values of a task file by which lm-eval would run code, or read by a program that can."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wina_core.studies.tasks.task_folder import TaskFile
from wina_core.studies.tasks.task_yaml import Function


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
    own = [layer.config for layer in file.layers if not layer.shipped]
    on_shipped = len(own) < len(file.layers)
    return tuple(dict.fromkeys(line for config in own for line in _requests(config, on_shipped)))


def _requests(config: Mapping[str, Any], on_shipped: bool) -> Iterator[str]:
    for key, function in _functions(config, ""):
        yield f"{key}: !function {function}"
    if "class" in config and not isinstance(config["class"], Function):
        yield _line("class", config["class"])
    path = config.get("dataset_path")
    if path is not None and not isinstance(path, Function) and not _only_reads(str(path)):
        yield _line("dataset_path", path)
    yield from _of_options("dataset_kwargs", config.get("dataset_kwargs"), _DATASET_OPTIONS)
    yield from _of_options("generation_kwargs", config.get("generation_kwargs"), _GENERATION_OPTIONS)
    if on_shipped:  # whose functions may take more for names of programs
        yield from _of_options("metadata", config.get("metadata"), frozenset(["version"]))
    own_scores = isinstance(config.get("process_results"), Function)  # which name their metrics as they like
    for metric in () if own_scores else _list(config.get("metric_list")):
        named = metric if isinstance(metric, Mapping) else {"metric": metric}
        name = named.get("metric")
        if not isinstance(name, Function) and (str(name) not in METRICS or named.get("hf_evaluate")):
            yield _line("metric", name)
    prompt = config.get("use_prompt")
    if prompt is not None and not str(prompt).startswith("qa-basic:"):
        yield _line("use_prompt", prompt)
    for member in _list(config.get("task")):
        if isinstance(member, Mapping):  # which may change a task of lm-eval
            yield from _requests(member, on_shipped=True)


def _functions(value: object, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Function):
        yield key, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _functions(each, str(name))
    elif isinstance(value, (list, tuple, set)):
        for each in value:
            yield from _functions(each, key)


def _of_options(name: str, options: object, harmless: frozenset[str]) -> Iterator[str]:
    if not isinstance(options, Mapping):
        return
    for key, value in options.items():
        if not isinstance(value, Function) and key not in harmless:
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
    return frozenset(each.name for each in (Path(spec.origin).parent / "packaged_modules").iterdir())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)
    elif value is not None:
        yield str(value)


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _line(key: str, value: object) -> str:
    text = " ".join(str(value).split())
    return f"{key}: {text if len(text) <= 120 else f'{text[:120]}...'}"
