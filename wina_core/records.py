"""What jobs produce: plain, validated records that travel over the engine's wire and land in the store as they are."""

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from wina_core.latency_specs import DecodePoint, LatencyPoint
from wina_core.plan import PlanLayout, SparsityPlan
from wina_core.specs import ROTATION_MODES, RotationMode, Selection


class Record(BaseModel):
    """Base of all records: immutable, closed to unknown fields, JSON both ways (non-finite floats included)."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


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


CUT_METRICS: dict[Selection, str] = {
    "topk": "threshold",
    "threshold": "threshold",
    "statistical": "deviation_threshold",
    "top_p": "mass_threshold",
}
"""What the calibrated cuts of a selection are stored as: of scores, of standard deviations, of shares of the mass."""


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


class ModelShape(Record):
    """What a model reads and computes for one token, in sizes alone: all that `wina_core.accounting` needs."""

    layout: PlanLayout
    inputs: tuple[tuple[int, ...], ...]
    """n of every gated matrix W [m, n], [layer][projection] like the layout."""
    fused: bool
    """Whether q, k, v and gate, up are row blocks of one matrix each."""
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    """Elements of each query and key head that rotary embeddings turn; 0 without them."""
    windows: tuple[int | None, ...]
    """Positions that each layer's attention sees at most; None where it sees all."""
    head_weights: int
    """Weights of the LM head, read for every token also where it is tied to the embedding."""
    further_weights: int
    """Weights of linear layers that are neither gated nor the LM head, for example projections of the embedding."""
    embedding_row: int
    """Elements that one token looks up, over all embedding tables."""
    rms_norm_inputs: int
    """Elements that pass an RMSNorm, over the whole model."""
    layer_norm_inputs: int
    """Elements that pass a LayerNorm, over the whole model."""
    norm_weights: int
    """Gains and biases of all norms."""
    biases: int
    """Biases of all linear layers."""
    biased: tuple[str, ...] = ()
    """Names of the gated projections whose linear layer has a bias."""
    dtype: str
    """What weights and KV cache are held as."""
    shortcuts: RotationMode = "none"
    """The mode of the rotation whose residual shortcuts an exported model brings along; it cannot be rotated again."""


class QuantizationReport(Record):
    """How far quantizing moved a model, on a probe text; the model before is rotated if it was to be."""

    quantization: str
    logits_deviation: float
    """||quantized - before||_F / ||before||_F of the logits."""
    kl: float
    """Mean over tokens of KL(before || quantized) between next-token distributions, in nats."""
    seconds: float


class ModelSummary(Record):
    """What the Model page shows about a loaded model."""

    location: str
    fingerprint: str
    architecture: str
    """transformers' class name, for example "LlamaForCausalLM"."""
    family: str
    """The key in the architecture table, for example "llama"."""
    layout: PlanLayout
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    tied_embeddings: bool
    dtype: str
    parameters: int
    gated_parameters: int
    memory_bytes: int
    """Bytes of all weights as loaded."""
    rotations: tuple[str, ...] = ROTATION_MODES
    """The modes of `RotationSpec` that are exact for this model; each with or without the rotation per head."""
    rotation_reason: str = ""
    """Why the other modes are not, as a sentence; empty where all are."""
    chat_template: bool = False
    """Whether its tokenizer has a template for conversations."""
    shape: ModelShape | None = None
    """What one token costs; None in summaries that were stored before it was part of them."""
    quantization: QuantizationReport | None = None


class RotationReport(Record):
    """How well a rotation kept the model and orthogonalized its inputs."""

    rotation: str
    """Content hash of the RotationSpec."""
    logits_deviation: float
    """||rotated - dense||_F / ||dense||_F of the logits on a probe text."""
    residuals: tuple[LayerRecord, ...]
    """metric "off_diagonal_energy": ||offdiag(W^T W)||_F^2 / ||W^T W||_F^2 per layer and projection."""
    shortcut_parameters: int
    """Weights of the d x d residual shortcuts that the rotated model reads for every token; 0 when free."""
    seconds: float
    exported_to: str | None = None
    quantization: QuantizationReport | None = None
    """What quantizing the rotated model changed on top; the other numbers are from before."""


class CalibrationRecord(Record):
    """Score thresholds and error curves of one model, rotation and method."""

    key: str
    """Name in the cache: hash over model, rotation, method's score and calibration spec."""
    tokens: int
    layers: tuple[LayerRecord, ...]
    """metrics "relative_error", "kept_energy" and one of CUT_METRICS, x = target sparsity; and of the weights alone
    "norm_spread" and "off_diagonal_energy", without x."""
    seconds: float


class AllocationRecord(Record):
    """A budget spread over a model's cells."""

    key: str
    """Name in the cache: hash over model, rotation, method, allocator and budget."""
    plan: SparsityPlan
    objective: str
    """What was minimized: "nothing" (uniform), "layer error", "curve error", "KL"."""
    value: FiniteFloat
    """The objective at `plan`."""
    bound: FiniteFloat | None = None
    """No plan of this budget has a lower value on the same curves; None where nothing is proven."""
    evaluations: int = 0
    """Forward passes, in whole models, that the search took."""
    seconds: float
    curves: tuple[LayerRecord, ...] = ()
    """metric "kl", x = sparsity: the divergence from dense, in nats per token, that each cell causes alone; of cells
    that move together, split by their numbers of weights. Empty where none are measured on its text."""


class CostTerm(Record):
    """One part of what a generated token costs (formulas: `wina_core.accounting.terms`)."""

    name: str
    """"projections", "low rank", "gating", "shortcuts", "attention", "norms", "elementwise", "head", "embedding"."""
    flops: float
    """Floating-point operations and comparisons; a multiply-add is two."""
    bytes: float
    """Bytes of weights and KV cache that are read."""


class CostRow(Record):
    """What a generated token costs with one rotation: as the paper counts, and in full."""

    rotation: str
    """A RotationSpec's mode, or "dense" for the model without gates and rotation."""
    counted_sparsity: float
    """Fraction of the gated weights that is not read, as the method counts it."""
    full_sparsity: float
    """The same with residual shortcuts, norms and calibrated values of the masks, and biases of replaced inputs counted
    as weights that are read; may be negative."""
    counted_flops: float
    """The terms that the paper counts: projections, low rank, head."""
    counted_flops_saving: float
    """Saved fraction of the dense model's `counted_flops`, as in the paper's figure of computational savings."""
    counted_bytes: float
    counted_bytes_saving: float
    full_flops: float
    """All terms."""
    full_flops_saving: float
    """Saved fraction of the dense model's `full_flops`; may be negative."""
    full_bytes: float
    full_bytes_saving: float
    shortcut_weights: int
    """Weights of the residual shortcuts."""
    terms: tuple[CostTerm, ...]
    warning: str = ""
    """A sentence where the shortcuts cost more than the sparsity bought, else empty."""


class CostRecord(Record):
    """What a generated token costs under one method and plan, for several rotations side by side."""

    shape: ModelShape
    method: str
    """`MethodSpec.label`."""
    target_sparsity: float
    """The uniform target, or the plan's budget."""
    context: int
    """Positions that the generated token attends to, itself included."""
    quantization: str
    rows: tuple[CostRow, ...]
    """The dense model's first."""


class Environment(Record):
    """What the numbers were computed on."""

    device: str
    hardware: str
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """16 hex digits over all of it, its name in the store."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:16]


class LatencyRecord(Record):
    """How fast one product was, against PyTorch's dense call taken turn by turn with it."""

    point: LatencyPoint
    """With the backend that "auto" came to."""
    op: str
    """What reads such a matrix, as the sweep named it."""
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the inputs, counted from the masks over all rows of the batch."""
    read_bytes: float
    """What must be read (`wina_core.latency.arithmetic.read_bytes`)."""
    median_ms: float
    p10_ms: float
    p90_ms: float
    dense_ms: float
    """Median of the dense call."""
    speedup: float
    """Median over the turns of the dense call's time over this one's."""
    bandwidth: float
    """GB/s (1e9 bytes) that this machine moved when the sweep began."""

    @property
    def gigabytes_per_second(self) -> float:
        """Of the bytes that must be read, in the median time."""
        return self.read_bytes / self.median_ms / 1e6

    @property
    def roofline(self) -> float:
        """Fraction of the speed that the bandwidth allows."""
        return self.gigabytes_per_second / self.bandwidth


class DecodeRecord(Record):
    """How fast a gated model decoded, against the dense one without a rotation."""

    point: DecodePoint
    environment: Environment
    measured_sparsity: float
    """Dropped fraction of the gated weights, as the method counts it."""
    tokens_per_second: float
    """Median over the repetitions, as the next two."""
    p10: float
    p90: float
    dense_tokens_per_second: float

    @property
    def speedup(self) -> float:
        """Over the dense model."""
        return self.tokens_per_second / self.dense_tokens_per_second


class SweepReport(Record):
    """What became of a sweep's points."""

    environment: Environment
    measured: int
    stored: int
    """Points that were measured on this environment before, and therefore not again."""
    points: tuple[str, ...] = ()
    """Hashes of all that were asked for, with the backend that "auto" came to."""
    skipped: tuple[str, ...] = ()
    """Why points were left out, a sentence for each reason."""
    bandwidth: float | None = None
    """GB/s at the start; None where no product was timed."""


class UnitEstimate(Record):
    """How long one measurement of one run should take."""

    unit: str
    seconds: float
    basis: Literal["stored", "probe"]
    """Taken from an equal measurement that is stored, or from a few documents timed now."""


class EstimateRecord(Record):
    """How long a study's missing measurements should take, without rotating, calibrating and allocating."""

    seconds: float
    units: int
    """Measurements that are missing."""
    estimates: tuple[UnitEstimate, ...]
    """One for each distinct unit."""


RunStatus = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
"""A run that is waiting or being computed ends as one of the last four; "interrupted": its program or job ended first.
Whatever the end, its finished units stay valid, and only the missing ones are computed when it is asked for again."""
