"""The uniform view of a model of a supported family."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from wina_core.compute.models.experts import Expert, compute_router_in_float64, separate_experts
from wina_core.compute.models.quantized_linear import QuantizedLinear, weight_like
from wina_core.compute.models.view import LayerView, ModelView, Projection, Rows
from wina_core.errors import WinaError
from wina_core.model_info.families import EXPERT_PROJECTIONS, Family, family_of
from wina_core.specs.plans import PROJECTIONS


def view(model: nn.Module) -> ModelView:
    """Return uniform access to a transformers model's norms and projections; raise WinaError for an unsupported class.

    Experts of a Mixture of Experts get linear layers of their own, in place (`models.experts`).
    """
    config: Any = model.config
    family = family_of(config.model_type, type(model).__name__)
    if refusal := family.refusal(config):
        raise WinaError(f"This {config.model_type} model is not supported, because {refusal}; open another one.")
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    attention_rows = {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim}
    parallel = getattr(config, "use_parallel_residual", family.parallel)
    multiplier = getattr(config, "residual_multiplier", 1.0)
    layers = attrgetter(family.layers)(model)
    if not layers:
        raise WinaError("The model has no layers; correct num_hidden_layers in its config.json.")

    def layer_view(index: int, layer: nn.Module) -> LayerView:
        attention_norm = _submodule(layer, family.attention_norm)
        experts = None if family.experts is None else separate_experts(layer, family.experts)
        paths = family.projections if experts is None else family.attention_projections
        projections = _projections(family, paths, index, layer, attention_rows, head_dim)
        whole_layer = LayerView(
            index=index,
            module=layer,
            attention_norm=attention_norm or nn.Identity(),
            # A parallel layer may have one norm for both.
            mlp_norm=_submodule(layer, family.mlp_norm) or attention_norm or nn.Identity(),
            projections={projection.name: projection for projection in projections},
            attention=attrgetter(family.attention)(layer),
            mlp=tuple(attrgetter(path)(layer) for path in family.mlp),
            parallel=parallel,
            multiplier=multiplier,
        )
        return (
            whole_layer if experts is None else _with_experts(family, whole_layer, experts, config.num_experts_per_tok)
        )

    return ModelView(
        family=config.model_type,
        model=model,
        embedding=attrgetter(family.embedding)(model),
        positions=_submodule(model, family.positions),
        layers=tuple(layer_view(index, layer) for index, layer in enumerate(layers)),
        final_norm=_submodule(model, family.final_norm) or nn.Identity(),
        head=attrgetter(family.head)(model),
        hidden_size=config.hidden_size,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        obstacle=family.obstacle(config),
    )


def _submodule(module: nn.Module, path: str | None) -> Any:
    return None if path is None else attrgetter(path)(module)


def _with_experts(family: Family, layer: LayerView, experts: nn.ModuleList, active: int) -> LayerView:
    """Return the view of a layer with its experts, each a view of its own, and the modules that are never gated."""
    modules = dict(layer.module.named_modules())  # a model may have no shared experts
    readers = tuple(modules[path] for path in family.further_readers if path in modules)
    for router in (reader for reader in readers if not isinstance(reader, nn.Linear)):
        if layer.mlp_norm.weight.dtype == torch.float64:
            compute_router_in_float64(router)

    def expert_view(number: int, expert: Expert) -> LayerView:
        projections = _projections(family, EXPERT_PROJECTIONS, layer.index, expert, {}, 0)
        return replace(
            layer,
            module=expert,
            projections={projection.name: projection for projection in projections},
            mlp=(expert,),
            expert=number,
        )

    return replace(
        layer,
        experts=tuple(expert_view(number, expert) for number, expert in enumerate(experts)),  # type: ignore[arg-type]
        active=active,
        further_readers=readers,
        further_writers=tuple(modules[path] for path in family.further_writers if path in modules),
    )


def _projections(
    family: Family,
    paths: Mapping[str, str],
    index: int,
    layer: nn.Module,
    attention_rows: Mapping[str, int],
    head_dim: int,
) -> Iterator[Projection]:
    used: dict[str, int] = {}
    for name in (name for name in PROJECTIONS if name in paths):
        path = paths[name]
        linear = attrgetter(path)(layer)
        if type(linear) is not nn.Linear and not isinstance(linear, QuantizedLinear):
            raise WinaError(
                f"{path} of layer {index} is a {type(linear).__name__} instead of a plain linear layer; "
                "open the model's unquantized weights."
            )
        shared = sum(other == path for other in paths.values())
        start = used.get(path, 0)
        used[path] = start + attention_rows.get(name, linear.out_features // shared)
        rows: Rows = slice(start, used[path])
        if family.interleaved and shared > 1:
            of_head = "qkv".index(name) * head_dim
            blocks = torch.arange(linear.out_features, device=weight_like(linear).device).view(-1, shared * head_dim)
            rows = blocks[:, of_head : of_head + head_dim].flatten()
        yield Projection(index, name, linear, rows)
