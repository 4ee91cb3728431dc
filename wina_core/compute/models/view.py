"""Uniform access to a model's gated matrices, independent of the architecture."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.norms import centres
from wina_core.sources.families import refused_rotations
from wina_core.specs.plans import PlanLayout

Rows = slice | Tensor
"""Rows of a linear layer: a slice, or ascending indices [m], int64, if not contiguous."""


@dataclass(frozen=True)
class Projection:
    """One gated matrix W [m, n], y = W x: a whole linear layer, or some rows of a fused one."""

    layer: int
    name: str
    """One of PROJECTIONS."""
    linear: nn.Linear
    rows: Rows
    """Its rows of `linear.weight`; all unless the layer is fused (qkv_proj, gate_up_proj, query_key_value)."""

    @property
    def weight(self) -> Tensor:
        """[m, n], a view into the linear layer's weight; a copy if the rows are indices."""
        return self.linear.weight[self.rows]

    @property
    def bias(self) -> Tensor | None:
        """[m], likewise; None without a bias."""
        return None if self.linear.bias is None else self.linear.bias[self.rows]

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        m, n = self.linear.out_features, self.linear.in_features
        return len(range(m)[self.rows]) if isinstance(self.rows, slice) else len(self.rows), n


def joined(first: Rows, second: Rows) -> Rows:
    """Return the rows of two neighbours of one linear layer."""
    if isinstance(first, slice) and isinstance(second, slice):
        return slice(first.start, second.stop)
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    return torch.cat([first, second]).sort().values


@dataclass(frozen=True)
class LayerView:
    """One decoder layer."""

    index: int
    module: nn.Module
    attention_norm: nn.Module
    """The norm whose output q, k and v read, if the model's stream can be rotated (see `ModelView.obstacle`)."""
    mlp_norm: nn.Module
    """The norm whose output gate and up read, likewise; in some parallel layers the attention's own."""
    projections: dict[str, Projection]
    """By canonical name, in the order of PROJECTIONS."""
    attention: nn.Module
    """From attention_norm's output to its write; called with keyword arguments, as in the layer."""
    mlp: tuple[nn.Module, ...]
    """Modules from mlp_norm's output to the MLP's write, in order."""
    parallel: bool
    """Whether attention and MLP read the same point: h + attention(norm h) + mlp(norm' h)."""
    multiplier: float
    """Factor of what attention and MLP write to the stream."""


def is_fused(layer: LayerView, names: tuple[str, ...]) -> bool:
    """Return whether the projections of these names are rows of one linear layer."""
    linears = {id(layer.projections[name].linear) for name in names if name in layer.projections}
    return len(names) > 1 and len(linears) == 1 and all(name in layer.projections for name in names)


@dataclass(frozen=True)
class ModelView:
    """The model's structure for rotation and gating."""

    family: str
    """Key in the architecture table."""
    model: nn.Module
    embedding: nn.Embedding
    positions: nn.Embedding | None
    """Learned positions added to the token's embedding."""
    layers: tuple[LayerView, ...]
    final_norm: nn.Module
    head: nn.Linear
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    obstacle: str
    """Why the residual stream cannot be rotated exactly, as a clause about the model; empty if it can."""
    mapped: MappedWeights | None = None
    """Its weights in files, whose memory is given back layer by layer; None if all are kept in memory."""

    def give_back(self, *modules: nn.Module) -> None:
        """Give back the memory of the unchanged weights of modules, if they are in files."""
        if self.mapped is not None:
            self.mapped.give_back(*modules)

    @property
    def projections(self) -> tuple[str, ...]:
        """Names of each layer's projections: the columns of the plan table."""
        return tuple(self.layers[0].projections)

    @property
    def layout(self) -> PlanLayout:
        """The plan table of this model."""
        shapes = [[projection.shape for projection in layer.projections.values()] for layer in self.layers]
        return PlanLayout(
            projections=self.projections,
            parameters=tuple(tuple(rows * columns for rows, columns in layer) for layer in shapes),
        )

    @property
    def centred(self) -> bool:
        """True if the norms of the stream subtract its mean, as LayerNorm does."""
        return centres(self.final_norm)

    @property
    def refused_rotations(self) -> dict[str, str]:
        """{mode that is not exact here: reason, a clause about the model}.

        Rotating the values per head is exact in every supported model, in any exact mode.
        """
        return refused_rotations(self.obstacle, parallel=any(layer.parallel for layer in self.layers))
