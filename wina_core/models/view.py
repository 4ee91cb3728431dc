"""Uniform access to a model's gated matrices, whatever the architecture calls them."""

from dataclasses import dataclass

from torch import Tensor, nn

from wina_core.plan import PlanLayout

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
"""Canonical names, in the order of every plan's columns."""


@dataclass(frozen=True)
class Projection:
    """One gated matrix W [m, n], y = W x: a whole linear layer, or some rows of a fused one."""

    layer: int
    name: str
    """One of PROJECTIONS."""
    linear: nn.Linear
    rows: slice
    """Its rows of `linear.weight`; all of them unless the layer is fused (qkv_proj, gate_up_proj)."""

    @property
    def weight(self) -> Tensor:
        """[m, n], a view into the linear layer's weight."""
        return self.linear.weight[self.rows]


@dataclass(frozen=True)
class LayerView:
    """One decoder layer."""

    index: int
    module: nn.Module
    attention_norm: nn.Module
    """The norm whose output q, k and v read."""
    mlp_norm: nn.Module
    """The norm whose output gate and up read."""
    projections: dict[str, Projection]
    """By canonical name, in the order of PROJECTIONS."""


@dataclass(frozen=True)
class ModelView:
    """What rotation and gating need to know about a model."""

    family: str
    """Key in the architecture table."""
    model: nn.Module
    embedding: nn.Embedding
    layers: tuple[LayerView, ...]
    final_norm: nn.Module
    head: nn.Linear
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def layout(self) -> PlanLayout:
        """The plan table this model needs."""
        return PlanLayout(
            projections=PROJECTIONS,
            parameters=tuple(
                tuple(layer.projections[name].weight.numel() for name in PROJECTIONS) for layer in self.layers
            ),
        )
