"""What a finished unit of a run produced, and what its numbers are in."""

from typing import Literal

from wina_core.records.base import Record

METRIC_UNITS = {
    "acc": "fraction",
    "acc_norm": "fraction",
    "exact_match": "fraction",
    "pct_stereotype": "fraction",
    "distance_from_unbiased": "fraction",
    "pass@1": "fraction",
    "score": "fraction",
    "counted_flops_saving": "fraction",
    "full_flops_saving": "fraction",
    "counted_bytes_saving": "fraction",
    "full_bytes_saving": "fraction",
    "kl": "nats per token",
    "perplexity": "per token",
    "word_perplexity": "per word",
    "byte_perplexity": "per byte",
    "bits_per_byte": "bits",
    "top1_agreement": "fraction",
    "logits_deviation": "relative",
    "error": "l2 norm",
    "error_deviation": "l2 norm",
}
"""What metrics are in, for the axes of plots: of the workbench's own all, of lm-eval's tasks the usual ones."""


class MetricRecord(Record):
    """One number that a task reported, for example acc of demo_choice."""

    task: str
    metric: str
    value: float
    stderr: float | None = None
    n: int | None = None
    """Documents (lm-eval tasks) or tokens (deviation) behind the value."""
    higher_is_better: bool | None = None
    version: str | None = None
    """Of the task's definition."""
    num_fewshot: int | None = None
    prompt_hash: str | None = None
    """16 hex digits over all prompts and continuations in order: equal where two runs were asked the very same."""
    truncated: int | None = None
    """Prompts whose beginning was cut off, since they are longer than the model's context."""


class SampleRecord(Record):
    """One document of one task."""

    task: str
    doc: int
    """Its number in the task's data; the same in all runs with the same data."""
    scores: dict[str, tuple[float, float]]
    """Metric: (value, weight). Accuracies have weight 1; of perplexities the value is a log-likelihood and the weight
    what it is divided by (words, bytes)."""
    target: str
    response: str
    """JSON: what the model answered, log-likelihoods or generated text, one for each request."""


class LayerRecord(Record):
    """One number about one projection of one decoder layer; `x` is the abscissa where the metric is a curve."""

    layer: int
    projection: str
    metric: str
    """"sparsity" (measured from masks), "target" and "rho" (of the table that an allocator found for a run),
    "relative_error" (x = target sparsity), "threshold" (x = target), ..."""
    value: float
    x: float | None = None


class UnitRecord(Record):
    """Everything one finished unit of a run produced; the store commits it as a whole."""

    run: str
    """Content hash of the RunSpec."""
    unit: str
    """An lm-eval task's name, `specs.DEVIATION` or `specs.SYNTHETIC`."""
    metrics: tuple[MetricRecord, ...]
    layers: tuple[LayerRecord, ...] = ()
    counted_sparsity: float | None = None
    """Dropped fraction of the gated weights as the method counts it, measured from the masks."""
    full_sparsity: float | None = None
    """The same with all else that is read counted as kept weights: residual shortcuts of the rotation, column norms and
    calibrated values that masks are made by, and biases that stand for replaced inputs. May be negative."""
    seconds: float
    samples: tuple[SampleRecord, ...] = ()
    """Every document's own scores; empty unless asked for."""


RunStatus = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
"""A run that is waiting or being computed ends as one of the last four; "interrupted": its program or job ended first.
Whatever the end, its finished units stay valid, and only the missing ones are computed when it is asked for again."""
