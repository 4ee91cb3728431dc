"""What a model is, what a token costs it in sizes, and how rotating and quantizing changed it."""

from wina_core.records.base import Record
from wina_core.records.units import LayerRecord
from wina_core.specs import ROTATION_MODES, RotationMode
from wina_core.specs.plans import PlanLayout


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
