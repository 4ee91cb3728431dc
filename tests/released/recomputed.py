"""Float64 recomputation of the gate rules, transforms and searches of the published methods.

The module uses PyTorch alone and imports nothing of the project, so that it can serve as an oracle. The definitions
come from the papers and from the authors' public repositories; each function names its source file. Arithmetic is
float64. The released code rounds to float16 in places (scores before histograms, thresholds, low-rank factors); the
oracle does not.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
ATTENTION = ("q", "k", "v", "o")
MLP = ("gate", "up", "down")
BLOCKS = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
"""Matrices that read the same input; fused models store q, k, v and gate, up as one matrix each."""

Cell = tuple[int, str]
"""(decoder layer, projection)."""


# ---- the decoder -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """A linear map: `weight` float64 [outputs, inputs], `bias` float64 [outputs] or None."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return W x + b for x [..., inputs]."""
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Layer:
    """One decoder layer: its seven matrices, the gains of its two norms, and residual shortcuts [d, d] or None."""

    matrices: Mapping[str, Matrix]
    attention_gain: Tensor
    mlp_gain: Tensor
    attention_shortcut: Tensor | None = None
    mlp_shortcut: Tensor | None = None


@dataclass(frozen=True)
class Weights:
    """All weights of a model; `fused` is True where q, k, v and gate, up are stored as one matrix each."""

    embedding: Tensor
    layers: tuple[Layer, ...]
    final_gain: Tensor
    head: Tensor
    fused: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in order."""
        return tuple((layer, name) for layer in range(len(self.layers)) for name in PROJECTIONS)


@dataclass(frozen=True)
class Shape:
    """The numbers of a Hugging Face configuration that the forward pass needs."""

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    theta: float
    rotary_share: float = 1.0


def shape_of(config: Any) -> Shape:
    """Read the numbers of a Hugging Face configuration.

    Parameters
    ----------
    config
        Configuration of a llama, qwen2 or phi3 model with the default rotary embedding.
    """
    rotary = dict(getattr(config, "rope_parameters", None) or {})
    return Shape(
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        epsilon=config.rms_norm_eps,
        theta=rotary.get("rope_theta") or config.rope_theta,
        rotary_share=rotary.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1.0,
    )


def read_weights(state: Mapping[str, Tensor], shape: Shape) -> Weights:
    """Split a Hugging Face state dict into the matrices of each layer.

    Fused matrices are split by rows: qkv_proj into heads, key-value heads and key-value heads; gate_up_proj into
    halves.

    Parameters
    ----------
    state
        The state dict of a llama, qwen2 or phi3 model for causal language modelling.
    shape
        The numbers of the same model's configuration.
    """
    tensors = {name: tensor.detach().double().clone() for name, tensor in state.items()}

    def rows(module: str, sizes: Sequence[int] | None = None) -> list[Matrix]:
        weight, bias = tensors[f"{module}.weight"], tensors.get(f"{module}.bias")
        sizes = sizes or [len(weight)]
        biases = [None] * len(sizes) if bias is None else list(bias.split(list(sizes)))
        return [Matrix(part, b) for part, b in zip(weight.split(list(sizes)), biases, strict=True)]

    fused = "model.layers.0.self_attn.qkv_proj.weight" in tensors
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layers = []
    while f"model.layers.{len(layers)}.input_layernorm.weight" in tensors:
        base = f"model.layers.{len(layers)}"
        if fused:
            inner = len(tensors[f"{base}.mlp.gate_up_proj.weight"]) // 2
            first = rows(f"{base}.self_attn.qkv_proj", (queries, keys, keys))
            second = rows(f"{base}.mlp.gate_up_proj", (inner, inner))
        else:
            first = [rows(f"{base}.self_attn.{name}_proj")[0] for name in "qkv"]
            second = [rows(f"{base}.mlp.{name}_proj")[0] for name in ("gate", "up")]
        output, down = rows(f"{base}.self_attn.o_proj"), rows(f"{base}.mlp.down_proj")
        layers.append(
            Layer(
                dict(zip(PROJECTIONS, [*first, *output, *second, *down], strict=True)),
                tensors[f"{base}.input_layernorm.weight"],
                tensors[f"{base}.post_attention_layernorm.weight"],
            )
        )
    embedding = tensors["model.embed_tokens.weight"]
    head = tensors.get("lm_head.weight", embedding)
    return Weights(embedding, tuple(layers), tensors["model.norm.weight"], head.clone(), fused)


@dataclass(frozen=True)
class Output:
    """A gate's replacement for W x, without the bias."""

    y: Tensor


GateFunction = Callable[[int, str, Tensor], Tensor | Output]
"""(layer, projection, input [rows, tokens, n]) -> the input that the matrix reads instead, or an `Output`."""


def normalized(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """Return RMSNorm(x) * gain for x [..., d]."""
    return x * (x.pow(2).mean(dim=-1, keepdim=True) + epsilon).rsqrt() * gain


def _rotated(x: Tensor, shape: Shape) -> Tensor:
    """Apply rotary embeddings to x [rows, heads, tokens, head_dim].

    Transformers computes angles, cosines and sines in float32 whatever the dtype of the model, and so does this.
    """
    size = int(shape.head_dim * shape.rotary_share)
    frequencies = 1.0 / (shape.theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
    angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequencies
    cosine, sine = angles.cos().double(), angles.sin().double()
    first, second, rest = x[..., : size // 2], x[..., size // 2 : size], x[..., size:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)


def _product(layer: Layer, index: int, name: str, x: Tensor, gate: GateFunction | None) -> Tensor:
    matrix = layer.matrices[name]
    replaced = x if gate is None else gate(index, name, x)
    if not isinstance(replaced, Output):
        return matrix(replaced)
    return replaced.y if matrix.bias is None else replaced.y + matrix.bias


def _attention(layer: Layer, index: int, shape: Shape, x: Tensor, gate: GateFunction | None) -> Tensor:
    rows, tokens, _ = x.shape

    def heads(name: str, count: int) -> Tensor:
        return _product(layer, index, name, x, gate).view(rows, tokens, count, shape.head_dim).transpose(1, 2)

    group = shape.heads // shape.kv_heads
    queries = _rotated(heads("q", shape.heads), shape)
    keys = _rotated(heads("k", shape.kv_heads), shape).repeat_interleave(group, dim=1)
    values = heads("v", shape.kv_heads).repeat_interleave(group, dim=1)
    logits = queries @ keys.transpose(-1, -2) / math.sqrt(shape.head_dim)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mixed = logits.masked_fill(future, -math.inf).softmax(dim=-1) @ values
    return _product(layer, index, "o", mixed.transpose(1, 2).reshape(rows, tokens, -1), gate)


def decoder_layer(layer: Layer, index: int, shape: Shape, x: Tensor, gate: GateFunction | None = None) -> Tensor:
    """Return the output of one decoder layer, residual included, for the residual stream x [rows, tokens, d]."""
    kept = x if layer.attention_shortcut is None else x @ layer.attention_shortcut
    x = kept + _attention(layer, index, shape, normalized(x, layer.attention_gain, shape.epsilon), gate)
    kept = x if layer.mlp_shortcut is None else x @ layer.mlp_shortcut
    h = normalized(x, layer.mlp_gain, shape.epsilon)
    z = _product(layer, index, "gate", h, gate)
    inner = z * torch.sigmoid(z) * _product(layer, index, "up", h, gate)
    return kept + _product(layer, index, "down", inner, gate)


def forward(weights: Weights, shape: Shape, ids: Tensor, gate: GateFunction | None = None) -> Tensor:
    """Return the logits of a causal decoder.

    Parameters
    ----------
    weights, shape
        The model.
    ids
        Token ids, int64 [rows, tokens].
    gate
        Function called at the input of each of the seven matrices of each layer; None for the dense model.

    Returns
    -------
    Tensor
        Float64 [rows, tokens, vocabulary].
    """
    x = weights.embedding[ids]
    for index, layer in enumerate(weights.layers):
        x = decoder_layer(layer, index, shape, x, gate)
    return normalized(x, weights.final_gain, shape.epsilon) @ weights.head.T


def dense_inputs(weights: Weights, shape: Shape, ids: Tensor) -> dict[Cell, Tensor]:
    """Return the input of every matrix in the dense model, [rows, tokens, n] by cell."""
    inputs: dict[Cell, Tensor] = {}

    def record(layer: int, name: str, x: Tensor) -> Tensor:
        inputs[layer, name] = x
        return x

    forward(weights, shape, ids, record)
    return inputs


def layer_inputs(weights: Weights, shape: Shape, ids: Tensor) -> list[Tensor]:
    """Return the residual stream before every layer of the dense model, [rows, tokens, d] each."""
    streams = [weights.embedding[ids]]
    for index, layer in enumerate(weights.layers[:-1]):
        streams.append(decoder_layer(layer, index, shape, streams[-1]))
    return streams


# ---- selections --------------------------------------------------------------------------------------------------


def kept_paper(n: int, sparsity: float) -> int:
    """Return K = n - floor(s n + 1/2), at least 1: the number of inputs that the papers keep."""
    return max(1, n - math.floor(sparsity * n + 0.5))


def kept_released(n: int, sparsity: float) -> int:
    """Return int(n (1 - s)) in double precision, as the released code of WINA and of LaRoSA counts.

    Sources: microsoft/wina utils/utils.py `SparsifyFn.forward`; alibaba/EfficientAI
    larosa/inference/modeling_llama_larosa.py `top_k_new`. The result may be 0.
    """
    return int(n * (1 - sparsity))


def top_k(score: Tensor, k: int) -> Tensor:
    """Return the mask of the k highest scores along the last axis; among equals the lower index is kept."""
    order = score.argsort(dim=-1, descending=True, stable=True)
    return torch.zeros(score.shape, dtype=torch.bool).scatter(-1, order[..., :k], True)


def top_k_with_ties(score: Tensor, k: int) -> Tensor:
    """Return the mask of all scores that reach the k-th highest, as `top_k_new` of LaRoSA's released code."""
    if k < 1:
        return torch.zeros(score.shape, dtype=torch.bool)
    return score >= score.sort(dim=-1, descending=True).values[..., k - 1 : k]


def inverse_cdf(values: Tensor, fraction: float) -> float:
    """Return the interpolated inverse of the empirical distribution function.

    The k-th smallest of N values has the fraction k / N; between two values the result is linear. This is `icdf` in
    utils/utils.py of microsoft/wina, whose histogram has one bin for each distinct value.

    Parameters
    ----------
    values
        Any shape, at least one value.
    fraction
        Below 1 / N the smallest value is returned, above 1 the largest.
    """
    ordered = values.flatten().sort().values
    position = fraction * len(ordered) - 1
    lower = math.floor(position)
    if lower < 0:
        return float(ordered[0])
    if lower >= len(ordered) - 1:
        return float(ordered[-1])
    return float(ordered[lower] + (position - lower) * (ordered[lower + 1] - ordered[lower]))


def teal_threshold(values: Tensor, sparsity: float) -> float:
    """Return TEAL's released threshold: the inverse CDF of the signed values at (1 + s) / 2, and 0 where s is 0.

    Source: FasterDecoding/TEAL utils/utils.py `SparsifyFn.set_threshold`, with exact values instead of its histogram.
    """
    return inverse_cdf(values, 0.5 + sparsity / 2) if sparsity != 0 else 0.0


def teal_histogram_threshold(values: Tensor, sparsity: float, bins: int = 10_000) -> float:
    """Return TEAL's released threshold from a histogram like its own.

    Source: FasterDecoding/TEAL utils/utils.py `ActivationModule.find_histogram` and `Distribution.icdf`. The two outer
    bins hold 1 % of the values each. A sparsity of 1 and more gives the centre of the last bin, which the largest
    values exceed.
    """
    if sparsity == 0:
        return 0.0
    ordered = values.double().flatten().sort().values
    tail = int(0.01 * len(ordered))
    inner = torch.linspace(float(ordered[tail]), float(ordered[-tail]), bins - 1, dtype=torch.float64)
    edges = torch.cat((ordered[:1], inner, ordered[-1:]))
    counts, _ = torch.histogram(ordered, bins=edges)
    centres, reached = (edges[:-1] + edges[1:]) / 2, counts.cumsum(dim=0)
    wanted = (0.5 + sparsity / 2) * len(ordered)
    index = int(torch.searchsorted(reached, wanted))
    if index == 0:
        return float(centres[0])
    if index == len(centres):
        return float(centres[-1])
    share = (wanted - reached[index - 1]) / (reached[index] - reached[index - 1])
    return float(centres[index - 1] + share * (centres[index] - centres[index - 1]))


def score_threshold(scores: Tensor, sparsity: float) -> float:
    """Return WINA's released threshold: the inverse CDF of the scores' absolute values at s, and 0 where s is 0.

    Source: microsoft/wina utils/utils.py `SparsifyFn.set_threshold`.
    """
    return inverse_cdf(scores.abs(), sparsity) if sparsity != 0 else 0.0


def no_prefix(tokens: int) -> int:  # noqa: ARG001 - has the signature of the others
    """Return 0: every token is gated."""
    return 0


def wina_prefix(tokens: int) -> int:
    """Return T - int(0.99 T), the number of dense first tokens (microsoft/wina utils/utils.py `SparsifyFn.forward`).

    A single token is gated, because `x[:, -0:]` is all of x.
    """
    gated = int(0.99 * tokens)
    return tokens - gated if gated else 0


def teal_prefix(tokens: int) -> int:
    """Return T - T // 2, the number of dense first tokens (FasterDecoding/TEAL utils/utils.py `SparsifyFn.forward`)."""
    return tokens - tokens // 2 if tokens > 1 else 0


def rsparse_prefix(tokens: int) -> int:
    """Return int(T (1 - 0.1)), the number of dense first tokens.

    Source: VITA-Group/R-Sparse models/modeling_llama.py `R_Sparse_Linear.forward` with evaluation.py's default
    `prefill_ratio`.
    """
    return int(tokens * (1 - 0.1))


# ---- gate rules --------------------------------------------------------------------------------------------------


@dataclass
class Gate:
    """TEAL's rule, y = W (m * x) + b with a mask m by |x|, and the base of the others.

    Call an instance as the `gate` of `forward`. It keeps the masks of its last call for each cell in `masks`, bool
    [rows, tokens, n]; tokens of the dense prefix have masks of ones.

    Attributes
    ----------
    weights
        The model that is gated.
    targets
        Sparsity s of each gated cell; cells that are absent or have 0 stay dense.
    cuts
        Thresholds by cell: an input is kept when its score exceeds it. None keeps the highest scores instead.
    released
        True for the released number of kept inputs, False for the paper's.
    prefix
        Number of dense first tokens of a sequence of T tokens.
    """

    weights: Weights
    targets: Mapping[Cell, float]
    cuts: Mapping[Cell, float] | None = None
    released: bool = False
    prefix: Callable[[int], int] = no_prefix
    masks: dict[Cell, Tensor] = field(default_factory=dict)

    def gates(self, name: str) -> bool:  # noqa: ARG002 - others gate some matrices only
        """Return whether the method gates the matrices of that name."""
        return True

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:  # noqa: ARG002 - others read the matrix
        """Return the score of every input, of the shape of x."""
        return x.abs()

    def kept(self, layer: int, name: str, n: int) -> int:
        """Return the number of inputs that top k keeps."""
        return (kept_released if self.released else kept_paper)(n, self.targets[layer, name])

    def mask(self, layer: int, name: str, score: Tensor) -> Tensor:
        """Return the mask of a score [rows, tokens, n], ones over the dense prefix."""
        if self.cuts is None:
            mask = top_k(score, self.kept(layer, name, score.shape[-1]))
        else:
            mask = score > self.cuts[layer, name]
        mask[:, : self.prefix(score.shape[1])] = True
        self.masks[layer, name] = mask
        return mask

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:  # noqa: ARG002 - likewise
        """Return what the matrix reads, or computes, instead of x."""
        return x * mask

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Gate the input of one matrix."""
        if not self.gates(name) or not self.targets.get((layer, name)):
            return x
        return self.replaced(layer, name, x, self.mask(layer, name, self.score(layer, name, x)))


def column_norms(weights: Weights, layer: int, names: Sequence[str]) -> Tensor:
    """Return the l2 norm of every column of the matrices stacked by rows, [n]."""
    return torch.cat([weights.layers[layer].matrices[name].weight for name in names]).norm(dim=0)


class Wina(Gate):
    """WINA's rule: the score is |x_i| times a column norm.

    Paper: every matrix uses its own norms. As released (microsoft/wina wina/self_attn.py `_monkeypatch_self_attn` and
    wina/mlp.py `_monkeypatch_mlp`): k and gate use their norms, q, v, o, up and down use 1. Fused models: q, k, v use
    the norms of the whole qkv matrix, gate and up those of the whole gate_up matrix.
    """

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return |x| * c."""
        if not self.released:
            return x.abs() * column_norms(self.weights, layer, (name,))
        if self.weights.fused:
            block = next(names for names in BLOCKS.values() if name in names)
            return x.abs() * column_norms(self.weights, layer, block) if len(block) > 1 else x.abs()
        return x.abs() * column_norms(self.weights, layer, (name,)) if name in ("k", "gate") else x.abs()


class SharedWina(Gate):
    """WINA's rule with one mask for all matrices that read the same input: c_i^2 is summed over them."""

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return |x| * c."""
        return x.abs() * column_norms(self.weights, layer, next(names for names in BLOCKS.values() if name in names))


class Cats(Gate):
    """CATS's rule: the mask by |SiLU(gate x)| selects rows of up and columns of down.

    Source: ScalingIntelligence/CATS experiments/models/sparse_silu/ugly_utils.py `MistralSparseSiluMLP.forward`. The
    targets and thresholds of `down` apply.
    """

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Compute the mask at the gate matrix and apply it at the input of down."""
        if not self.targets.get((layer, "down")):
            return x
        if name == "gate":
            z = self.weights.layers[layer].matrices["gate"](x)
            self.masks[layer, "up"] = self.mask(layer, "down", (z * torch.sigmoid(z)).abs())
        return x * self.masks[layer, "down"] if name == "down" else x


def rsparse_rank(outputs: int, inputs: int, sparsity: float, rho: float) -> int:
    """Return the paper's rank, floor(m n (1 - s)(1 - rho) / (m + n)), by the true shape [m, n]."""
    return math.floor(outputs * inputs * (1 - sparsity) * (1 - rho) / (outputs + inputs) + 1e-9)


def rsparse_released_rank(outputs: int, inputs: int, sparsity: float, rho: float, *, searched: bool = False) -> int:
    """Return the released rank of a matrix [m, n]; the caller passes hidden x hidden for q, k, v and o.

    Source: VITA-Group/R-Sparse utils/setup.py `set_threshold_r_sparse`. With `searched` shares at least one input and
    one rank are kept.
    """
    channels = max(int(inputs * (1 - sparsity) * rho), int(searched))
    budget = inputs * outputs * (1 - sparsity) - channels * outputs
    return max(int(budget / (inputs + outputs)), int(searched))


@dataclass
class RSparse(Gate):
    """R-Sparse's rule: y = W (m * x) + U_r S_r V_r^T ((1 - m) * x) + b.

    Paper: the mask keeps (1 - s) rho of the inputs by |x|. As released (VITA-Group/R-Sparse models/modeling_llama.py
    `R_Sparse_Linear`, utils/setup.py): by |x_i| * ||W[:, i]||, or by |x_i| without a low-rank part where rho is 1; and
    the rank takes q, k, v and o for hidden x hidden.

    Attributes
    ----------
    rho
        Share of the kept budget that goes to the mask: one for all cells, or one for each cell.
    searched
        True where the shares come from a searched file: as released each matrix then keeps one input and one rank.
    """

    rho: float | Mapping[Cell, float] = 1.0
    searched: bool = False

    def share(self, layer: int, name: str) -> float:
        """Return rho of a cell."""
        return self.rho if isinstance(self.rho, float) else self.rho[layer, name]

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return |x|, times the column norms as released with rho below 1."""
        scaled = self.released and self.share(layer, name) != 1
        return x.abs() * column_norms(self.weights, layer, (name,)) if scaled else x.abs()

    def masked_fraction(self, layer: int, name: str) -> float:
        """Return 1 - (1 - s) rho, the fraction of inputs that the mask drops."""
        return 1 - (1 - self.targets[layer, name]) * self.share(layer, name)

    def kept(self, layer: int, name: str, n: int) -> int:
        """Return the number of inputs of the mask; as released the `channels` of utils/setup.py."""
        if not self.released:
            return kept_paper(n, self.masked_fraction(layer, name))
        return max(int(n * (1 - self.targets[layer, name]) * self.share(layer, name)), int(self.searched))

    def rank(self, layer: int, name: str) -> int:
        """Return the rank of the low-rank part."""
        outputs, inputs = self.weights.layers[layer].matrices[name].weight.shape
        sparsity, rho = self.targets[layer, name], self.share(layer, name)
        if not self.released:
            return rsparse_rank(outputs, inputs, sparsity, rho)
        if rho == 1:
            return 0
        if name in ATTENTION:
            outputs = inputs = self.weights.embedding.shape[1]
        return rsparse_released_rank(outputs, inputs, sparsity, rho, searched=self.searched)

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:
        """Add the low-rank part of the dropped inputs."""
        weight, rank = self.weights.layers[layer].matrices[name].weight, self.rank(layer, name)
        u, s, vt = torch.linalg.svd(weight, full_matrices=False)
        rest = ((x * ~mask) @ vt[:rank].T * s[:rank]) @ u[:, :rank].T
        return Output((x * mask) @ weight.T + rest)


@dataclass
class Scap(Gate):
    """SCAP's rule: y = W (m * (x - mode)) + W mode + b with a mask by |x - mode|.

    Source: IntelLabs/SCAP calibrate.py `SCAPCalibrationHook`. Paper: one scalar mode for each matrix of the MLP. As
    released for Llama-2 and Mistral: modes of 0.

    Attributes
    ----------
    modes
        The mode of every gated cell: a scalar, or a vector [n] for a mode of each input.
    names
        Matrices that the method gates.
    """

    modes: Mapping[Cell, Tensor | float] = field(default_factory=dict)
    names: tuple[str, ...] = MLP

    def gates(self, name: str) -> bool:
        """Return whether the method gates the matrices of that name."""
        return name in self.names

    def _mode(self, layer: int, name: str) -> Tensor | float:
        return self.modes.get((layer, name), 0.0)

    def score(self, layer: int, name: str, x: Tensor) -> Tensor:
        """Return the distance from the mode."""
        return (x - self._mode(layer, name)).abs()

    def replaced(self, layer: int, name: str, x: Tensor, mask: Tensor) -> Tensor | Output:
        """Return the output with dropped inputs at the mode."""
        weight, mode = self.weights.layers[layer].matrices[name].weight, self._mode(layer, name)
        constant = weight @ (torch.zeros(x.shape[-1], dtype=torch.float64) + mode)
        return Output(((x - mode) * mask) @ weight.T + constant)


def density_estimate(values: Tensor, at: Tensor, adjust: float = 0.5) -> Tensor:
    """Return a Gaussian kernel density estimate of `values` at the points `at`.

    The bandwidth is `adjust` times Scott's rule, std * N^(-1/5), as IntelLabs/SCAP calibrate.py sets it for seaborn.
    """
    values = values.flatten()
    width = adjust * values.std() * len(values) ** -0.2
    total = sum(torch.exp(-0.5 * ((at[:, None] - part) / width) ** 2).sum(dim=1) for part in values.split(4096))
    return total / (len(values) * width * math.sqrt(2 * math.pi))


def density_peak(values: Tensor, points: int = 2000, adjust: float = 0.5) -> tuple[float, float]:
    """Return (mode, density there): the highest of `points` equidistant points between the extreme values."""
    grid = torch.linspace(float(values.min()), float(values.max()), points, dtype=torch.float64)
    density = density_estimate(values, grid, adjust)
    return float(grid[density.argmax()]), float(density.max())


@dataclass
class Larosa(Gate):
    """LaRoSA's rule: top k of the rotated inputs, x -> Q (m * (Q^T x)), with one Q for each decoder layer.

    Source: alibaba/EfficientAI larosa/inference/modeling_llama_larosa.py. Q rotates the inputs of q, k, v, gate and
    up; o and down are gated as they are. The level is 0.8 s before and 1.2 s for o and down. All inputs that reach the
    k-th highest are kept. With `folded` the norm's gain belongs to the matrices, as a rotation merged into the weights
    needs it; the released code rotates the input with its gain.

    Attributes
    ----------
    bases
        Q [d, d] of every layer, columns are basis vectors.
    """

    bases: Sequence[Tensor] = ()
    folded: bool = True

    def level(self, layer: int, name: str) -> float:
        """Return the sparsity of a matrix."""
        return self.targets[layer, name] * (1.2 if name in ("o", "down") else 0.8)

    def mask(self, layer: int, name: str, score: Tensor) -> Tensor:
        """Return the mask of a score, ties included."""
        mask = top_k_with_ties(score, kept_released(score.shape[-1], self.level(layer, name)))
        mask[:, : self.prefix(score.shape[1])] = True
        self.masks[layer, name] = mask
        return mask

    def __call__(self, layer: int, name: str, x: Tensor) -> Tensor | Output:
        """Gate the input of one matrix."""
        if not self.targets.get((layer, name)):
            return x
        if name in ("o", "down"):
            return x * self.mask(layer, name, x.abs())
        each = self.weights.layers[layer]
        gain = each.mlp_gain if name in ("gate", "up") else each.attention_gain
        gain = gain if self.folded else torch.ones_like(gain)
        rotated = (x / gain) @ self.bases[layer]
        return (rotated * self.mask(layer, name, rotated.abs())) @ self.bases[layer].T * gain


def larosa_bases(weights: Weights, shape: Shape, ids: Tensor, *, folded: bool = True) -> list[Tensor]:
    """Return Q of every layer: the eigenvectors of the second moment of the attention input in the dense model.

    Source: alibaba/EfficientAI larosa/gen_act/grab_acts_rotate_diff_Q_llama.py. Its damping of the diagonal leaves
    eigenvectors as they are.
    """
    inputs, bases = dense_inputs(weights, shape, ids), []
    for index, layer in enumerate(weights.layers):
        x = inputs[index, "q"].flatten(0, 1)
        x = x / layer.attention_gain if folded else x
        bases.append(torch.linalg.eigh(x.T @ x).eigenvectors)
    return bases


# ---- the published transform -------------------------------------------------------------------------------------


def fold_gains(weights: Weights) -> Weights:
    """Multiply the gain of every norm into the matrices that read its output, and set the gains to 1."""
    layers = []
    for layer in weights.layers:
        gains = dict.fromkeys(BLOCKS["qkv"], layer.attention_gain) | dict.fromkeys(("gate", "up"), layer.mlp_gain)
        matrices = {
            name: replace(matrix, weight=matrix.weight * gains[name]) if name in gains else matrix
            for name, matrix in layer.matrices.items()
        }
        ones = torch.ones_like(layer.attention_gain)
        layers.append(replace(layer, matrices=matrices, attention_gain=ones, mlp_gain=ones))
    return replace(
        weights,
        layers=tuple(layers),
        final_gain=torch.ones_like(weights.final_gain),
        head=weights.head * weights.final_gain,
    )


def right_basis(weight: Tensor, stacked: Tensor) -> Tensor:
    """Return an orthogonal V [n, n] that makes the columns of W V orthogonal, in descending order of their norms.

    V holds the right singular vectors of W [m, n]. Where W has a null space, the singular vectors of W do not settle
    the basis of it, and the released code leaves the choice to the SVD routine. Here the null space is spanned by the
    eigenvectors of the Gram matrix of `stacked` (all matrices that read the same input) inside it.
    """
    _, values, vt = torch.linalg.svd(weight, full_matrices=True)
    rank = int((values > values[0] * 1e-10).sum())
    row_space, null_space = vt[:rank].T, vt[rank:].T
    if null_space.shape[1] == 0:
        return row_space
    inside = stacked @ null_space
    turned = torch.linalg.eigh(inside.T @ inside).eigenvectors.flip(1)
    return torch.cat((row_space, null_space @ turned), dim=1)


def transform(weights: Weights, *, subtract_mean: bool = False) -> Weights:
    """Return the published orthogonal transform of a model, with d x d shortcuts on the residual stream.

    Source: microsoft/wina utils/tensor_transform.py. The basis of an attention input comes from k, that of an MLP
    input from gate; fused models take the whole qkv and gate_up matrices. `subtract_mean` also subtracts the mean of
    each row of the embedding, as the released code does, which RMSNorm does not undo. The head is a matrix of its own
    also where the model ties it to the embedding.
    """
    weights = fold_gains(weights)
    attention, mlp = [], []
    for layer in weights.layers:
        qkv, gate_up = (
            torch.cat([layer.matrices[name].weight for name in BLOCKS[block]]) for block in ("qkv", "gate_up")
        )
        attention.append(right_basis(qkv if weights.fused else layer.matrices["k"].weight, qkv))
        mlp.append(right_basis(gate_up if weights.fused else layer.matrices["gate"].weight, gate_up))
    following = [*attention[1:], mlp[-1]]
    layers = []
    for layer, first, second, third in zip(weights.layers, attention, mlp, following, strict=True):
        matrices = {}
        for name, matrix in layer.matrices.items():
            if name in ("o", "down"):
                basis = second if name == "o" else third
                bias = None if matrix.bias is None else basis.T @ matrix.bias
                matrices[name] = Matrix(basis.T @ matrix.weight, bias)
            else:
                matrices[name] = replace(matrix, weight=matrix.weight @ (first if name in BLOCKS["qkv"] else second))
        layers.append(
            replace(layer, matrices=matrices, attention_shortcut=first.T @ second, mlp_shortcut=second.T @ third)
        )
    embedding = weights.embedding
    if subtract_mean:
        embedding = embedding - embedding.mean(dim=1, keepdim=True)
    return replace(weights, embedding=embedding @ attention[0], layers=tuple(layers), head=weights.head @ following[-1])


# ---- greedy allocation -------------------------------------------------------------------------------------------

Row = dict[str, float]
"""Sparsity of each block of a layer."""


def weighted_mean(row: Row, sizes: Mapping[str, float]) -> float:
    """Return the mean sparsity of a row, weighted by the sizes of its blocks."""
    return sum(value * sizes[name] for name, value in row.items()) / sum(sizes.values())


def visited_rows(error: Callable[[Row], float], sizes: Mapping[str, float], step: float, stop: float) -> list[Row]:
    """Return the rows that the released greedy search accepts, in order.

    Source: FasterDecoding/TEAL teal/greedyopt.py and microsoft/wina wina/greedyopt.py `process_layer`. From zero, each
    step adds step / size to the block with the lowest error; the first one wins among equals. A block at 1 or above is
    left alone, but a step may overshoot 1. The search ends when the weighted mean reaches `stop`.
    """
    row, rows = dict.fromkeys(sizes, 0.0), []
    while weighted_mean(row, sizes) < stop:
        trials = [row | {name: row[name] + step * (1 / sizes[name])} for name in sizes if row[name] < 1]
        row = min(trials, key=error)
        rows.append(row)
    return rows


def closest_row(rows: Sequence[Row], sizes: Mapping[str, float], budget: float) -> Row:
    """Return the visited row whose weighted mean is closest to the budget.

    Source: `get_layer_greedy_sparsities` in utils/utils.py of both repositories. The row of zeros is not among them.
    """
    return min(rows, key=lambda row: abs(weighted_mean(row, sizes) - budget))


def output_error(dense: Tensor, gated: Tensor) -> float:
    """Return the error of a layer's output [rows, tokens, d] over the last quarter of each sequence.

    The l2 norm runs over tokens, for each row and channel; the result is their mean.
    """
    first = int(gated.shape[1] * (1 - 0.25))
    return float((dense - gated)[:, first:].norm(dim=1).mean())


def true_sizes(layer: Layer, fused: bool) -> dict[str, float]:
    """Return the number of weights of each block relative to q; fused models have the blocks qkv, o, gate_up, down."""
    count = {
        name: matrix.weight.numel() / layer.matrices["q"].weight.numel() for name, matrix in layer.matrices.items()
    }
    if not fused:
        return count
    return {block: sum(count[name] for name in names) for block, names in BLOCKS.items()}


def teal_sizes(layer: Layer, keys: float = 1 / 8) -> dict[str, float]:
    """Return TEAL's table: true sizes relative to q, but `keys` for k and v (1/8; 1/4 for Llama-3-8B)."""
    return true_sizes(layer, fused=False) | {"k": keys, "v": keys}


@dataclass(frozen=True)
class Search:
    """A released greedy search: its sizes, its step, where it stops, its dense prefix, its scores and thresholds."""

    sizes: Callable[[Layer], Mapping[str, float]]
    step: float
    stop: float
    prefix: Callable[[int], int]
    gate: type[Gate]
    threshold: Callable[[Tensor, float], float]
    """(signed scores of a matrix in the dense model, sparsity) -> what |score| must exceed."""


def wina_search(weights: Weights, step: float = 0.025) -> Search:
    """Return the search of microsoft/wina wina/greedyopt.py, with its default of 0.66 for where it stops."""
    return Search(lambda layer: true_sizes(layer, weights.fused), step, 0.66, wina_prefix, Wina, score_threshold)


def teal_search(step: float = 0.05, keys: float = 1 / 8) -> Search:
    """Return the search of FasterDecoding/TEAL teal/greedyopt.py, with its default of 0.9 for where it stops."""
    return Search(lambda layer: teal_sizes(layer, keys), step, 0.9, teal_prefix, Gate, teal_histogram_threshold)


Cutter = Callable[[int, str, float], float]
"""(layer, projection, sparsity) -> threshold."""


def exact_cuts(weights: Weights, shape: Shape, ids: Tensor, search: Search) -> Cutter:
    """Return the thresholds of a released search: exact quantiles of the dense model's scores on a text."""
    inputs, scorer = dense_inputs(weights, shape, ids), search.gate(weights, {}, released=True)

    def cut(layer: int, name: str, sparsity: float) -> float:
        x = inputs[layer, name]
        return search.threshold(scorer.score(layer, name, x) * x.sign(), sparsity)

    return cut


def greedy_rows(
    weights: Weights, shape: Shape, ids: Tensor, search: Search, cut: Cutter | None = None
) -> list[list[Row]]:
    """Return the rows that a released greedy search visits, for every layer.

    Layers are searched one by one on the dense model's residual stream. Masks come from thresholds.

    Parameters
    ----------
    weights, shape
        The model.
    ids
        Token ids of the text, int64 [rows, tokens]; the same text gives thresholds and errors.
    search
        The released search.
    cut
        Thresholds to use instead of the exact quantiles of the dense model's activations.
    """
    streams, found = layer_inputs(weights, shape, ids), []
    cut = cut or exact_cuts(weights, shape, ids, search)
    for index, layer in enumerate(weights.layers):
        sizes = dict(search.sizes(layer))
        dense = decoder_layer(layer, index, shape, streams[index])
        thresholds: dict[tuple[str, float], float] = {}

        def error(row: Row, index: int = index, layer: Layer = layer, dense: Tensor = dense, known: Any = thresholds):
            targets = spread_blocks(row, index)
            for (_, name), sparsity in targets.items():
                if (name, sparsity) not in known:
                    known[name, sparsity] = cut(index, name, sparsity)
            cuts = {(at, name): known[name, value] for (at, name), value in targets.items()}
            gate = search.gate(weights, targets, cuts, released=True, prefix=search.prefix)
            return output_error(dense, decoder_layer(layer, index, shape, streams[index], gate))

        found.append(visited_rows(error, sizes, search.step, search.stop))
    return found


def spread_blocks(row: Row, layer: int) -> dict[Cell, float]:
    """Return the targets of a layer's cells from the sparsities of its blocks."""
    return {(layer, name): value for block, value in row.items() for name in BLOCKS.get(block, (block,))}


def greedy_plan(weights: Weights, rows: Sequence[Sequence[Row]], search: Search, budget: float) -> dict[Cell, float]:
    """Return the target of every cell: in each layer the visited row closest to the budget."""
    plan: dict[Cell, float] = {}
    for index, layer in enumerate(weights.layers):
        plan |= spread_blocks(closest_row(rows[index], dict(search.sizes(layer)), budget), index)
    return plan
