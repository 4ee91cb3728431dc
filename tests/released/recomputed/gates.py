"""Gate rules of all methods; TEAL's is the base of the others."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.released.recomputed.decoder import ATTENTION, BLOCKS, MLP, Cell, Output, Shape, Weights, dense_inputs
from tests.released.recomputed.selections import kept_paper, kept_released, no_prefix, top_k, top_k_with_ties


@dataclass
class Gate:
    """TEAL's rule, y = W (m * x) + b with a mask m by |x|, and the base of the others.

    Call an instance as the `gate` of `forward`. It keeps the masks of its last call for each cell in `masks`, bool
    [rows, tokens, n]; tokens of the dense prefix have masks of ones.
    """

    weights: Weights
    targets: Mapping[Cell, float]
    """Sparsity s of each gated cell; cells that are absent or have 0 stay dense."""
    thresholds: Mapping[Cell, float] | None = None
    """By cell: an input is kept when its score exceeds it. None keeps the highest scores instead."""
    released: bool = False
    """True for the released number of kept inputs, False for the paper's."""
    prefix: Callable[[int], int] = no_prefix
    """Number of dense first tokens of a sequence of T tokens."""
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
        if self.thresholds is None:
            mask = top_k(score, self.kept(layer, name, score.shape[-1]))
        else:
            mask = score > self.thresholds[layer, name]
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
    """

    rho: float | Mapping[Cell, float] = 1.0
    """Share of the kept budget that goes to the mask: one for all cells, or one for each cell."""
    searched: bool = False
    """True where the shares come from a searched file: as released each matrix then keeps one input and one rank."""

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
    """

    modes: Mapping[Cell, Tensor | float] = field(default_factory=dict)
    """The mode of every gated cell: a scalar, or a vector [n] for a mode of each input."""
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
    """

    bases: Sequence[Tensor] = ()
    """Q [d, d] of every layer, columns are basis vectors."""
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
