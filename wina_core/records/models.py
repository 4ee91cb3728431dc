"""Summaries of models: sizes, the effect of quantization, and the cost of a generated token."""

from wina_core.records.base import Record
from wina_core.specs import ROTATION_MODES, RotationMode
from wina_core.specs.plans import PlanLayout


class ModelShape(Record):
    """The sizes of a model that decide the cost of a token, for `wina_core.model_info.cost`."""

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
    """Elements of each query and key head with rotary embeddings; 0 without them."""
    windows: tuple[int | None, ...]
    """Largest number of positions that each layer's attention sees; None for all."""
    head_weights: int
    """Weights of the LM head, read for every token even if tied to the embedding."""
    further_weights: int
    """Weights of other dense linear layers, for example projections of the embedding."""
    embedding_row: int
    """Elements of one token's rows in all embedding tables."""
    embedding_weights: int = 0
    """Weights of all embedding tables; 0 in shapes of older versions."""
    tied_head: bool = False
    """Whether the head is one of these tables; False in shapes of older versions."""
    rms_norm_inputs: int
    """Elements that pass an RMSNorm, over the whole model."""
    layer_norm_inputs: int
    """Elements that pass a LayerNorm, over the whole model."""
    norm_weights: int
    """Gains and biases of all norms."""
    biases: int
    """Biases of all linear layers that a token reads, and attention sinks."""
    biased: tuple[str, ...] = ()
    """Names of the gated projections whose linear layer has a bias."""
    experts: tuple[int, ...] = ()
    """Experts of each layer, 0 with a dense MLP; empty without any. The layout has the weights that a token reads."""
    active_experts: int = 1
    """Experts that a token reads in each layer that has some."""
    idle_biases: int = 0
    """Biases of the experts that a token does not read."""
    dtype: str
    """Data type of weights and KV cache."""
    stream_gains: bool = False
    """Whether q, k, v and gate, up read the outputs of two norms with a gain each, which can carry column norms; False
    in shapes of older versions."""
    folded: tuple[str, ...] = ()
    """Names of the projections whose inputs carry their column norms (`RotationSpec.fold_norms`)."""
    shortcuts: RotationMode = "none"
    """Mode of the rotation whose residual shortcuts an exported model contains; it cannot be rotated again."""


class QuantizationReport(Record):
    """The effect of quantization on a probe text, against the model before, which may be rotated."""

    quantization: str
    logits_deviation: float
    """||quantized - before||_F / ||before||_F of the logits."""
    kl: float
    """Mean over tokens of KL(before || quantized) between next-token distributions, in nats."""
    seconds: float


class ModelSummary(Record):
    """The facts that the Model page shows about a loaded model."""

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
    """The modes of `RotationSpec` that are exact for this model, with or without the rotation per head."""
    rotation_reason: str = ""
    """The reason against the other modes, as a sentence; empty where all are exact."""
    chat_template: bool = False
    """Whether its tokenizer has a template for conversations."""
    shape: ModelShape | None = None
    """Sizes for the cost of a token; None in summaries of older versions."""
    quantization: QuantizationReport | None = None
    remarks: tuple[str, ...] = ()
    """What to know about its weights, as sentences: how a GGUF file held them, another data type than the stored."""


class CostTerm(Record):
    """One term of a generated token's cost (formulas: `wina_core.model_info.cost.terms`)."""

    name: str
    """"projections", "low rank", "gating", "shortcuts", "attention", "norms", "elementwise", "head", "embedding"."""
    flops: float
    """Floating-point operations and comparisons; a multiply-add is two."""
    bytes: float
    """Bytes read of weights and KV cache."""


class CostRow(Record):
    """The cost of a generated token with one rotation: as the paper counts, and in full."""

    rotation: str
    """A RotationSpec's mode, or "dense" for the model without gates and rotation."""
    gated_sparsity: float
    """Fraction of the gated weights that is not read."""
    net_sparsity: float
    """The same after residual shortcuts, norms and calibrated values of masks, and biases of replaced inputs. May be
    negative."""
    gated_flops: float
    """The terms that the paper counts: projections, low rank, head."""
    gated_flops_saving: float
    """Saved fraction of the dense model's `gated_flops`, as in the paper's figure of computational savings."""
    gated_bytes: float
    gated_bytes_saving: float
    net_flops: float
    """All terms."""
    net_flops_saving: float
    """Saved fraction of the dense model's `net_flops`; may be negative."""
    net_bytes: float
    net_bytes_saving: float
    bits_read: float
    """Bits read for a token of the gated matrices and low-rank parts, scales and zeros included, over their weights. By
    energy, as if kept inputs had the mean of all; the KL from the original comes with measured ones."""
    bits_held: float
    """Bits held of the gated matrices, scales and zeros included, over their weights."""
    bytes_held: float = 0.0
    """Bytes of all weights, shortcuts and norms of masks, and of the KV cache of the context."""
    gated_weights: float = 0.0
    """Number of gated weights."""
    shortcut_weights: int
    """Weights of the residual shortcuts."""
    terms: tuple[CostTerm, ...]
    warning: str = ""
    """A sentence where more is read than in the dense model, else empty."""


class CostRecord(Record):
    """The cost of a generated token under one method and plan, for several rotations."""

    shape: ModelShape
    method: str
    """`MethodSpec.label`."""
    target_sparsity: float
    """The uniform target, or the plan's budget."""
    context: int
    """Positions that the generated token attends to, itself included."""
    quantization: str
    """`quantization_label` of the model's quantization."""
    rows: tuple[CostRow, ...]
    """The dense model's first."""
