"""Uniform access to a model's gated matrices, independent of the architecture."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.norms import centres
from wina_core.model_info.families import refused_rotations
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
    """One decoder layer, or one expert of it."""

    index: int
    module: nn.Module
    attention_norm: nn.Module
    """The norm whose output q, k and v read, if the model's stream can be rotated (see `ModelView.obstacle`)."""
    mlp_norm: nn.Module
    """The norm whose output gate and up read, likewise; in some parallel layers the attention's own."""
    projections: dict[str, Projection]
    """By canonical name, in the order of PROJECTIONS; without those that `experts` have."""
    attention: nn.Module
    """From attention_norm's output to its write; called with keyword arguments, as in the layer."""
    mlp: tuple[nn.Module, ...]
    """Modules from mlp_norm's output to the MLP's write, in order."""
    parallel: bool
    """Whether attention and MLP read the same point: h + attention(norm h) + mlp(norm' h)."""
    multiplier: float
    """Factor of what attention and MLP write to the stream."""
    experts: tuple["LayerView", ...] = ()
    """The experts of a Mixture of Experts, each with gate, up and down."""
    expert: int | None = None
    """The number of this expert; None for a whole layer."""
    active: int = 1
    """Experts that a token reads."""
    further_readers: tuple[nn.Module, ...] = ()
    """Modules with a weight [m, d] that read mlp_norm's output and are never gated: the router, shared experts."""
    further_writers: tuple[nn.Linear, ...] = ()
    """Linear layers of shared experts that write to the stream and are never gated."""

    @property
    def parts(self) -> tuple["LayerView", ...]:
        """The layer itself and its experts: all views with projections."""
        return (self, *self.experts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the layer's projections, its experts' included."""
        return (*self.projections, *(self.experts[0].projections if self.experts else ()))

    @property
    def share(self) -> float:
        """The fraction of tokens that are expected to read each expert; 1 without experts."""
        return self.active / len(self.experts) if self.experts else 1.0

    def at(self, index: int) -> "LayerView":
        return replace(self, index=index, experts=tuple(replace(expert, index=index) for expert in self.experts))

    def matrices(self, names: Collection[str]) -> Iterator[Projection]:
        """Yield the projections of these names, those of all experts included."""
        for layer in self.parts:
            yield from (projection for name, projection in layer.projections.items() if name in names)

    def shape(self, name: str) -> tuple[int, int]:
        """Return (m, n) of a projection, of one expert if they have it."""
        return next(self.matrices((name,))).shape

    def matrices_read(self, name: str) -> int:
        return 1 if name in self.projections else self.active


def is_fused(layer: LayerView, names: tuple[str, ...]) -> bool:
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
    first_scored: int = 0
    """First position of a row of text that statistics and scores take: 1 where the tokenizer adds BOS, whose
    activations are like no other token's."""

    def read_ahead(self, layers: tuple[LayerView, ...]) -> None:
        """Read the first of these layers, if there is one and its weights are in files, while others are computed."""
        if self.mapped is not None and layers:
            self.mapped.read_ahead(layers[0].module)

    def give_back(self, *modules: nn.Module) -> None:
        if self.mapped is not None:
            self.mapped.give_back(*modules)

    @property
    def projections(self) -> tuple[str, ...]:
        """Names of each layer's projections: the columns of the plan table."""
        return self.layers[0].names

    @property
    def parts(self) -> tuple[LayerView, ...]:
        """Every decoder layer, followed by its experts."""
        return tuple(view for layer in self.layers for view in layer.parts)

    @property
    def has_experts(self) -> bool:
        return any(layer.experts for layer in self.layers)

    @property
    def layout(self) -> PlanLayout:
        """The plan table of this model; of experts, the weights that a token reads."""
        return PlanLayout(
            projections=self.projections,
            parameters=tuple(
                tuple(layer.matrices_read(name) * math.prod(layer.shape(name)) for name in self.projections)
                for layer in self.layers
            ),
        )

    @property
    def centred(self) -> bool:
        return centres(self.final_norm)

    @property
    def refused_rotations(self) -> dict[str, str]:
        """{mode that is not exact here: reason, a clause about the model}.

        Rotating the values per head is exact in every supported model, in any exact mode.
        """
        return refused_rotations(self.obstacle, parallel=any(layer.parallel for layer in self.layers))
