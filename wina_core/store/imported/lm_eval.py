"""The JSON file of results that lm-eval writes with `--output_path`."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from wina_core.errors import WinaError
from wina_core.records.imports import ImportedPoint, ImportedValue, Parsed

_PRETRAINED = re.compile(r"(?:^|,)(?:pretrained|path|model)=([^,]+)")


def from_json(text: str, file: str) -> Parsed:
    """Return one point with the metrics of all tasks; raise WinaError for other content."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WinaError(f"it is no valid JSON ({_reason(error)}).") from error
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, dict) or not results:
        raise WinaError('it has no object "results"; lm-eval writes one with --output_path.')
    metrics = {name: value for task, numbers in results.items() for name, value in _metrics(task, numbers)}
    if not metrics:
        raise WinaError('its "results" hold no number.')
    config = content.get("config")
    config = config if isinstance(config, dict) else {}
    model, parameters = _model(content, config), config.get("model_num_parameters")
    date, version = content.get("date"), content.get("lm_eval_version") or content.get("git_hash")
    counted = _is_number(parameters) and 0 < parameters < math.inf
    point = ImportedPoint(
        name=model or file,
        metrics=metrics,
        settings={
            name: str(config[name])[:200] for name in ("model", "batch_size", "limit", "device") if config.get(name)
        },
        model=model,
        parameters=parameters if counted else None,
    )
    return Parsed("lm-eval", (point,), version=str(version or "")[:100], measured=date if _is_number(date) else None)


def _metrics(task: str, numbers: object) -> Iterator[tuple[str, ImportedValue]]:
    """Yield name and value of each metric of a task; "acc,none" is named "acc"."""
    if not isinstance(numbers, Mapping):
        raise WinaError(f'its task "{task}" holds no metrics.')
    for key, value in numbers.items():
        metric, _, filtered = key.partition(",")
        if metric.endswith("_stderr") or not filtered or not _is_number(value):
            continue  # "alias", for one, has no filter
        name = f"{task} {metric}" if filtered == "none" else f"{task} {metric},{filtered}"
        if not math.isfinite(value):
            raise WinaError(f"{name} is {value}, which is no number; repeat this task.")
        stderr = numbers.get(f"{metric}_stderr,{filtered}")
        is_known = _is_number(stderr) and math.isfinite(stderr)
        yield name, ImportedValue(value=value, stderr=stderr if is_known else None)


def _model(content: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return the model's name or path; empty if none is stated."""
    arguments = config.get("model_args")
    if isinstance(arguments, dict):
        return str(arguments.get("pretrained") or content.get("model_name") or "")
    match = _PRETRAINED.search(arguments) if isinstance(arguments, str) else None
    return match[1] if match else str(content.get("model_name") or "")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
