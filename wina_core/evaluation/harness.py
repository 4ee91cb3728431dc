"""lm-eval in-process on a live, possibly gated model: the stock command line's numbers, with progress and cancel."""

import math
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from numbers import Real
from typing import Any

import numpy as np
import torch
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.evaluation.tasks import load_task
from wina_core.gating import Gates
from wina_core.gating.tokens import without_trailing
from wina_core.models.loading import LoadedModel
from wina_core.records import MetricRecord
from wina_core.reporting import Reporter
from wina_core.specs import EvaluationSpec

_PADDING = 0
"""What lm-eval pads log-likelihood batches with, on the right and without an attention mask."""


def evaluate_task(
    loaded: LoadedModel, gates: Gates | None, spec: EvaluationSpec, task: str, reporter: Reporter
) -> tuple[MetricRecord, ...]:
    """All numeric metrics of one lm-eval task, or of a group's members and aggregates.

    A metric has lm-eval's name without the filter "none": "acc", "acc_norm", "exact_match,flexible-extract". The
    numbers are those of `lm_eval --model hf --batch_size B --seed 0,S,S,S` with S = spec.seed, its default being
    1234; for 16-bit models those with `softmax_dtype=float32` among its model_args. Counts of `gates` start anew, so
    that they are this task's afterwards. Raises WinaError for a task that cannot be loaded and for logits that are not
    a number; Cancelled within a batch's time.
    """
    os.environ.setdefault("DISABLE_MULTIPROC", "1")  # standard errors by bootstrap must not fork this process
    reporter.check()
    random.seed(0)
    np.random.seed(spec.seed)
    torch.manual_seed(spec.seed)
    own = spec.task(task)
    tasks = load_task(task, spec.task_folders)
    for member in tasks["tasks"].values():
        _set_fewshot(member, own.num_fewshot, spec.seed)
    if gates is not None:
        gates.reset_counts()
    with _checking(loaded.model, reporter):
        language_model = _LanguageModel(
            loaded, gates, 16 if spec.batch_size == "auto" else spec.batch_size, reporter, task
        )
        results = evaluate(language_model, tasks, limit=own.limit, log_samples=False)
    return _records(results)


def _set_fewshot(task: Any, num_fewshot: int | None, seed: int) -> None:
    """As lm-eval's command line does: a task that fixes its examples at 0 keeps them."""
    default = task.get_config("num_fewshot")
    if num_fewshot is not None and default != 0:
        task.set_config(key="num_fewshot", value=num_fewshot)
    elif default is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=seed)


@contextmanager
def _checking(model: torch.nn.Module, reporter: Reporter) -> Iterator[None]:
    """Within: every forward pass of the model, each generated token's too, first asks whether to go on."""
    hook = model.register_forward_pre_hook(lambda *_: reporter.check())
    try:
        yield
    finally:
        hook.remove()


class _LanguageModel(HFLM):
    """lm-eval's view of a loaded model, which tells gates about padding and a reporter about progress."""

    def __init__(
        self, loaded: LoadedModel, gates: Gates | None, batch_size: int, reporter: Reporter, task: str
    ) -> None:
        # summed in 16 bits, log-likelihoods have three digits: methods would tie
        softmax_dtype = torch.float32 if loaded.model.dtype.itemsize == 2 else None
        super().__init__(
            pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=batch_size, softmax_dtype=softmax_dtype
        )
        self._gates = gates
        self._reporter = reporter
        self._task = task
        self._done = 0.0
        self._total = 0
        self._windows = 0
        self.set_cache_hook(self)

    def add_partial(self, attribute: str, request: Any, result: Any) -> None:  # noqa: ARG002 - lm-eval's cache hook
        """Called by lm-eval for each answered request."""
        if attribute != "loglikelihood_rolling":  # those are all answered together at the end
            self._advance(1)

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002 - always off
        """Log-likelihoods of continuations."""
        self._total += len(requests)
        return super().loglikelihood(requests, disable_tqdm=True)

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002
        """Log-likelihoods of whole texts, cut into windows of the model's context."""
        self._total += len(requests)
        self._windows = 0
        return super().loglikelihood_rolling(requests, disable_tqdm=True)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> Any:  # noqa: ARG002
        """Generated continuations."""
        self._total += len(requests)
        return super().generate_until(requests, disable_tqdm=True)

    def tok_encode(self, string: str, *args: Any, **kwargs: Any) -> list[int]:
        """Tokenize; large tasks spend long here before the first batch, so this asks whether to go on, too."""
        self._reporter.check()
        tokens: list[int] = super().tok_encode(string, *args, **kwargs)
        self._windows += math.ceil(len(tokens) / self.max_length)
        return tokens

    def _loglikelihood_tokens(
        self,
        requests: Any,
        disable_tqdm: bool = True,  # noqa: ARG002
        override_bs: int | None = None,
    ) -> Any:
        answers = super()._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=override_bs)
        if override_bs is not None:  # a batch of rolling windows
            self._advance(self._total * len(requests) / max(self._windows, 1))
        return answers

    def _model_call(self, inps: Tensor, attn_mask: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        """Logits [batch, tokens, vocabulary] of right-padded ids [batch, tokens]."""
        real = nullcontext() if self._gates is None else self._gates.tokens(without_trailing(inps, _PADDING))
        with real:
            logits: Tensor = super()._model_call(inps, attn_mask, labels)
        if logits.isnan().any():
            raise WinaError(
                f"The model's logits are not numbers on {self._task}; lower the sparsity or load it in another dtype."
            )
        return logits

    def _advance(self, requests: float) -> None:
        self._done = min(self._done + requests, self._total)
        self._reporter.progress(self._done, self._total, "requests", self._task)


def _records(results: Any) -> tuple[MetricRecord, ...]:
    records = []
    for task, values in results["results"].items():
        better = results["higher_is_better"].get(task, {})
        for key, value in values.items():
            metric, comma, filter_name = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, Real):
                continue
            stderr = values.get(f"{metric}_stderr,{filter_name}")
            records.append(
                MetricRecord(
                    task=task,
                    metric=metric if filter_name == "none" else key,
                    value=float(value),
                    stderr=float(stderr) if isinstance(stderr, Real) else None,
                    n=values.get("sample_len"),
                    higher_is_better=better.get(metric),
                )
            )
    return tuple(records)
