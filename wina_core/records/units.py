"""The results of a finished unit of a run, the units of measurement of its metrics, and estimates of a study's
duration.
"""

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
    "gated_flops_saving": "fraction",
    "net_flops_saving": "fraction",
    "gated_bytes_saving": "fraction",
    "net_bytes_saving": "fraction",
    "kl": "nats per token",
    "perplexity": "per token",
    "word_perplexity": "per word",
    "byte_perplexity": "per byte",
    "bits_per_byte": "bits",
    "top1_agreement": "fraction",
    "kl_median": "nats per token",
    "kl_p90": "nats per token",
    "kl_p99": "nats per token",
    "kl_p99_9": "nats per token",
    "kl_max": "nats per token",
    "delta_p": "probability",
    "delta_p_rms": "probability",
    "perplexity_original": "per token",
    "perplexity_ratio": "ratio",
    "logits_deviation": "relative",
    "error": "l2 norm",
    "error_deviation": "l2 norm",
}
"""Units of metrics for the axes of plots: all of the workbench's own, the usual ones of lm-eval."""


_KL_NOISE = 1e-6


def noise_of(metric: str) -> float:
    """Return the magnitude below which a metric's values are noise of rounding, shown as 0; 0 for all but KL."""
    return _KL_NOISE if METRIC_UNITS.get(metric) == "nats per token" else 0.0


def has_mean(metric: str) -> bool:
    """Return whether values of a metric can be averaged over tasks."""
    # The best values of these two are a half and zero: a mean with accuracies would say nothing.
    return METRIC_UNITS.get(metric) == "fraction" and metric not in ("pct_stereotype", "distance_from_unbiased")


class MetricRecord(Record):
    """One number of a task, for example acc of demo_choice."""

    task: str
    metric: str
    value: float
    stderr: float | None = None
    n: int | None = None
    """Documents (lm-eval tasks) or tokens (fidelity) behind the value."""
    higher_is_better: bool | None = None
    version: str | None = None
    """Of the task's definition."""
    num_fewshot: int | None = None
    prompt_hash: str | None = None
    """16 hex digits over all prompts and continuations in order: equal for equal requests."""
    truncated: int | None = None
    """Prompts longer than the model's context, whose beginning was cut off."""


class SampleRecord(Record):
    """One document of one task."""

    task: str
    doc: int
    """Its number in the task's data, equal in all runs with the same data."""
    scores: dict[str, tuple[float, float]]
    """Metric: (value, weight). Accuracies have weight 1; for perplexities the value is a log-likelihood and the weight
    its divisor (words, bytes)."""
    target: str
    response: str
    """JSON: the model's response to each request, log-likelihoods or generated text."""


EXPERT_SPARSITY, EXPERT_SHARE, EXPERT_THRESHOLD = "expert_sparsity", "expert_share", "expert_threshold"
"""Metrics of each expert in a run: the sparsity of the tokens that read it, the fraction of tokens that do, and the
threshold of its gate where it is a calibrated one."""
EXPERT_METRICS = (EXPERT_SPARSITY, EXPERT_SHARE, EXPERT_THRESHOLD)


class LayerRecord(Record):
    """One number of one projection of one decoder layer; `x` is the abscissa of a curve."""

    layer: int
    projection: str
    metric: str
    """"sparsity" (measured from masks), "target" and "rho" (of a run's allocated table),
    "relative_error" (x = target sparsity), "threshold" (x = target), ..."""
    value: float
    x: float | None = None


class ExpertRecord(Record):
    """One number of each expert, for one projection of one decoder layer; the store keeps a row for each."""

    layer: int
    projection: str
    metric: str
    """One of EXPERT_METRICS or EXPERT_TOKENS."""
    values: tuple[float | None, ...]
    """In the order of the experts; None where nothing is known."""


class UnitRecord(Record):
    """All results of one finished unit of a run; the store commits them as a whole."""

    run: str
    """Content hash of the RunSpec."""
    unit: str
    """An lm-eval task's name, or one of `specs.OWN_UNITS`."""
    metrics: tuple[MetricRecord, ...]
    layers: tuple[LayerRecord, ...] = ()
    experts: tuple[ExpertRecord, ...] = ()
    """EXPERT_METRICS of a Mixture of Experts."""
    gated_sparsity: float | None = None
    """Dropped fraction of the gated weights, measured from the masks."""
    net_sparsity: float | None = None
    """The same after the other numbers read: residual shortcuts, column norms and calibrated values of the masks, and
    biases of replaced inputs. May be negative."""
    seconds: float
    samples: tuple[SampleRecord, ...] = ()
    """Every document's scores; empty unless requested."""


RunStatus = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
"""The last four are ends; "interrupted": its program or job ended first. Finished units stay valid after any end, and
a repeated run computes only the missing ones."""
ACTIVE: tuple[RunStatus, ...] = ("queued", "running")
"""The others: a program has the run."""


ProductKind = Literal["rotation", "quantization", "calibration", "allocation"]
"""Kind of what is computed once before measurements, and cached on disk."""
