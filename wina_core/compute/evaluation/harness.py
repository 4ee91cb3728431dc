"""lm-eval in-process on a live, possibly gated model: the stock command line's numbers, with progress and
cancellation."""

import hashlib
import json
import os
import random
from collections.abc import Mapping, Sequence
from numbers import Real
from traceback import walk_tb
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jinja2 import TemplateError

from wina_core.compute.evaluation.language_model import LanguageModel
from wina_core.compute.evaluation.lm_eval_adapter import (
    compile_templates_once,
    evaluate,
    metric_name,
    sample_records,
    without_bars,
)
from wina_core.compute.evaluation.shared_passes import Batches, SharedPasses, with_batches
from wina_core.compute.evaluation.tasks import load_task
from wina_core.compute.gating import Gates
from wina_core.compute.hooks import cancellable
from wina_core.compute.models.describe import reason
from wina_core.compute.models.finite import numbers_only
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import Reporter
from wina_core.errors import Cancelled, WinaError
from wina_core.records import MetricRecord, SampleRecord
from wina_core.specs import EvaluationSpec, TaskSpec

_STEREOTYPE, _UNBIASED = "pct_stereotype", 0.5
"""Share of pairs whose stereotyping sentence is likelier, and its value without preference."""


def evaluate_task(
    loaded: LoadedModel,
    gates: Gates | None,
    spec: EvaluationSpec,
    task: str,
    reporter: Reporter,
    samples: list[SampleRecord] | None = None,
    run_model_code: bool = False,
    task_code: Mapping[str, str] = MappingProxyType({}),
    shared: SharedPasses | None = None,
    sharing: Sequence[Gates] = (),
) -> tuple[MetricRecord, ...]:
    """Return all numeric metrics of one lm-eval task, or of a group's members and aggregates.

    A metric has lm-eval's name without the filter "none": "acc", "acc_norm", "exact_match,flexible-extract". The
    numbers are those of `lm_eval --model hf --batch_size B --seed 0,S,S,S` with S = spec.seed (1234 by default); for
    16-bit models those with `softmax_dtype=float32` among its model_args. With `spec.chat_template` they are those of
    its `--apply_chat_template`. "distance_from_unbiased", |pct_stereotype - 0.5|, is added to "pct_stereotype".

    Prompts longer than the model's window lose their beginning, as in lm-eval, with a warning. Whole texts are read in
    consecutive windows. Scores of every document are added to `samples`, if given. `run_model_code` is the consent to
    run model-written programs, `task_code` that to run the code of task folders, by their digests. Counts of `gates`
    restart and are this task's afterwards. Where memory does not hold the weights, earlier passes through the layers
    are reused from `shared`, and `sharing`, removed gates that will measure the same, pass the layers with these.
    Raises WinaError for a task that cannot be loaded, for requests that `LanguageModel` refuses, and for logits that
    are not numbers; Cancelled within a batch's time.
    """
    has_template = bool(loaded.tokenizer.chat_template)
    if spec.chat_template and not has_template:
        raise WinaError(
            f"The tokenizer of {loaded.source.location} has no chat template; evaluate the tasks without one."
        )
    if has_template and not spec.chat_template:
        reporter.log("info", f"{task}: the model has a chat template, which is not applied (--apply-chat-template).")
    os.environ.setdefault("DISABLE_MULTIPROC", "1")  # standard errors by bootstrap must not fork this process

    @without_bars()
    def measure(batches: Batches) -> tuple[tuple[MetricRecord, ...], list[SampleRecord]]:
        reporter.check()
        tasks = _prepared_tasks(spec, task, run_model_code, task_code)
        members = tasks["tasks"]
        if gates is not None:
            gates.reset_counts()
        language_model = LanguageModel(loaded, gates, batches, reporter, task, shared, sharing)
        with (
            compile_templates_once(),
            cancellable(loaded.model, reporter, [loaded.model]),
            numbers_only(loaded.view, f"on {task}"),
        ):
            results = _results(language_model, tasks, spec, task, samples is not None, run_model_code)
        language_model.warn_of_truncation()
        documents = [
            record
            for name, member in members.items()
            if samples is not None
            for record in sample_records(name, member.aggregation(), results["samples"][name])
        ]
        facts = {name: _facts(name, results, language_model, member) for name, member in members.items()}
        return _records(results, facts), documents

    records, documents = with_batches(spec.batch_size, loaded, task, reporter, measure)
    if samples is not None:
        samples += documents
    return records


def _prepared_tasks(spec: EvaluationSpec, task: str, run_model_code: bool, task_code: Mapping[str, str]) -> Any:
    """Return lm-eval's tasks with the settings of the spec, after seeding as lm-eval's command line does."""
    random.seed(0)  # --seed 0,S,S,S
    np.random.seed(spec.seed)
    torch.manual_seed(spec.seed)
    task_spec = spec.task(task)
    tasks = load_task(task, spec.task_folders, spec.data_folder, run_model_code, task_code)
    for member in tasks["tasks"].values():
        _set_fewshot(member, task_spec.num_fewshot, spec.seed)
        # Other kinds of requests have no such setting.
        if task_spec.max_gen_toks is not None and member.OUTPUT_TYPE == "generate_until":
            member.set_config("generation_kwargs", {"max_gen_toks": task_spec.max_gen_toks}, update=True)
    return tasks


def _results(
    language_model: LanguageModel, tasks: Any, spec: EvaluationSpec, task: str, keep_samples: bool, run_model_code: bool
) -> Any:
    """Return lm-eval's results; raise WinaError for documents that do not fit their task file."""
    task_spec = spec.task(task)
    try:
        return evaluate(
            language_model,
            tasks,
            limit=None if task_spec.first else task_spec.limit,
            samples=_chosen_documents(task_spec, tasks["tasks"]),
            log_samples=keep_samples,
            confirm_run_unsafe_code=run_model_code,
            apply_chat_template=spec.chat_template,
            fewshot_as_multiturn=spec.chat_template,
        )
    except TemplateError as error:
        raise WinaError(
            f'A template of the task "{task}" fails on a document ({reason(error)}); correct its task file.'
        ) from error
    except Exception as error:
        if isinstance(error, WinaError | Cancelled) or _in_model(error):
            raise  # the model's errors, such as running out of memory, are not the task's
        raise WinaError(
            f'The documents of the task "{task}" do not fit its task file ({reason(error)}); correct one of them.'
        ) from error


def _in_model(error: Exception) -> bool:
    """Return whether an error arose in the model, not in lm-eval's work on a task's documents."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == LanguageModel.__module__ for frame in frames)


def _set_fewshot(task: Any, num_fewshot: int | None, seed: int) -> None:
    """Set the number of examples as lm-eval's command line does: a task that fixes it at 0 keeps it."""
    default = task.get_config("num_fewshot")
    if num_fewshot is not None and default != 0:
        task.set_config(key="num_fewshot", value=num_fewshot)
    elif default is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=seed)


def _chosen_documents(task_spec: TaskSpec, members: Mapping[str, Any]) -> dict[str, list[int]] | None:
    """Return the numbers of the evaluated documents of each member; None for a beginning, which `limit` chooses."""
    if not task_spec.first:
        return None
    chosen = {}
    for name, member in members.items():
        count = len(member.eval_docs)
        if count <= task_spec.first:
            raise WinaError(
                f'The task "{name}" has {count:,} documents, so none is left from number {task_spec.first:,} on; '
                "choose a lower `first`."
            )
        chosen[name] = list(range(task_spec.first, min(count, task_spec.first + (task_spec.limit or count))))
    return chosen


def _facts(task: str, results: Any, language_model: LanguageModel, member: Any) -> dict[str, Any]:
    prompts = hashlib.sha256()
    for request in member.instances:
        prompts.update(json.dumps(request.args, sort_keys=True, default=str).encode())
    return {
        "version": str(results["versions"][task]),
        "num_fewshot": int(results["n-shot"][task] or 0),
        "prompt_hash": prompts.hexdigest()[:16],
        "truncated": sum(id(request) in language_model.truncated for request in member.instances),
    }


def _records(results: Any, facts: dict[str, dict[str, Any]]) -> tuple[MetricRecord, ...]:
    records = []
    for task, values in results["results"].items():
        better = results["higher_is_better"].get(task, {})
        for key, value in values.items():
            metric, comma, filter_name = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, Real):
                continue
            stderr = values.get(f"{metric}_stderr,{filter_name}")
            record = MetricRecord(
                task=task,
                metric=metric_name(metric, filter_name),
                value=float(value),
                stderr=float(stderr) if isinstance(stderr, Real) else None,
                n=values.get("sample_len"),
                higher_is_better=better.get(metric),
                **facts.get(task, {}),
            )
            records.append(record)
            if metric == _STEREOTYPE:
                distance = {"metric": metric_name("distance_from_unbiased", filter_name), "higher_is_better": False}
                records.append(record.model_copy(update=distance | {"value": abs(record.value - _UNBIASED)}))
    return tuple(records)
