"""Records of every document, which add up to the reported metrics."""

import json
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from wina_core.compute.evaluation.lm_eval_adapter import bits_per_byte, handle_non_serializable, weighted_perplexity
from wina_core.records import SampleRecord

_WEIGHTED = (weighted_perplexity, bits_per_byte)
"""Aggregations over pairs (log-likelihood, weight)."""


def sample_records(task: str, aggregations: Mapping[str, Any], kept: Iterable[Mapping[str, Any]]) -> list[SampleRecord]:
    """Return one record for each document of a task, in the data's order.

    `kept` are lm-eval's logged samples, one for each document and filter. With v and w of all documents, a mean metric
    is sum(v) / sum(w), a perplexity exp(-sum(v) / sum(w)), and bits_per_byte -sum(v) / sum(w) / log 2, to the last
    digit. Metrics of whole corpora, such as f1 or bleu, have no score of a document and are left out.
    """
    scores: dict[int, dict[str, tuple[float, float]]] = {}
    first: dict[int, Mapping[str, Any]] = {}
    for sample in kept:
        first.setdefault(sample["doc_id"], sample)
        own = scores.setdefault(sample["doc_id"], {})
        for metric in sample["metrics"]:
            score = _score(sample[metric], aggregations.get(metric))
            if score is not None:
                own[metric_name(metric, sample["filter"])] = score
    return [
        SampleRecord(
            task=task,
            doc=doc,
            scores=scores[doc],
            target=_text(sample["target"]),
            response=_json([_answer(answers) for answers in sample["resps"]]),
        )
        for doc, sample in sorted(first.items())
    ]


def metric_name(metric: str, filter_name: str) -> str:
    """Return lm-eval's "metric,filter", without the filter "none"."""
    return metric if filter_name == "none" else f"{metric},{filter_name}"


def _score(value: Any, aggregation: Any) -> tuple[float, float] | None:
    if isinstance(value, (Real, np.bool_)):
        return float(value), 1.0
    if aggregation in _WEIGHTED:
        log_likelihood, weight = value
        return float(log_likelihood), float(weight)
    return None


def _answer(repeats: list[Any]) -> Any:
    """Return a request's log-likelihood or text, or all of them if it was repeated."""
    answers = [answer[0] if isinstance(answer, tuple) else answer for answer in repeats]
    return answers[0] if len(answers) == 1 else answers


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=handle_non_serializable)
