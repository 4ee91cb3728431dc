"""A model's sizes, read off a loaded model, or off one built from its config.json on the meta device."""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from wina_core.compute.models.architectures import family_of
from wina_core.compute.models.loading import download
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import ModelShape
from wina_core.sources.model_checks import read_config
from wina_core.sources.resolve import local_folder
from wina_core.specs import ModelSource

_NEEDED = (
    ("hidden_size",),
    ("num_hidden_layers",),
    ("num_attention_heads",),
    ("intermediate_size", "ffn_dim"),
    ("vocab_size",),
)
"""Sizes that a config must state, each in one of these names: the library's defaults are another model's."""
_POSITIVE = (*(name for names in _NEEDED for name in names), "num_key_value_heads", "head_dim", "sliding_window")
_MOST_LAYERS = 1000
"""Several times the deepest published models; every layer takes time to build."""
_LONGEST_REASON = 200


def empty_model(source: ModelSource, reporter: Reporter) -> Any:
    """Return the model of a config.json on the meta device, without allocation; of a hub id only that file is fetched.

    Its dtype is the source's, or with "auto" the config's, or else float32. Raises WinaError for what `load_model`
    refuses by the config alone, for a config that describes no model, and for missing sizes.
    """
    folder = local_folder(source) or download(source, reporter, ("config.json",))
    content = read_config(folder)
    named = content.get("architectures") or [None]
    family_of(str(content.get("model_type")), named[0] if isinstance(named, list) else str(named))
    try:
        _check_sizes(content)
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        dtype = (config.dtype or torch.float32) if source.dtype == "auto" else getattr(torch, source.dtype)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, dtype=dtype)
    except Exception as error:  # sizes that do not go together fail in the constructors in as many ways as there are
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
        raise WinaError(
            f"The config.json in {folder} describes no model ({reason}); restore it from the model's source."
        ) from error


def _check_sizes(content: dict[str, Any]) -> None:
    for names in _NEEDED:
        if all(content.get(name) is None for name in names):
            raise ValueError(f"it has no {names[0]}")
    for name in _POSITIVE:
        value = content.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"its {name} is {value!r} instead of a positive integer")
    heads, layers = content["num_attention_heads"], content["num_hidden_layers"]
    if heads % (content.get("num_key_value_heads") or heads):
        raise ValueError(f"its {heads} heads cannot share {content['num_key_value_heads']} key-value heads evenly")
    if layers > _MOST_LAYERS:
        raise ValueError(f"its {layers} layers are more than the {_MOST_LAYERS} that any model may have")
    kinds = content.get("layer_types")
    if isinstance(kinds, list) and len(kinds) != layers:
        raise ValueError(f"its layer_types are {len(kinds)} for {layers} layers")


def model_shape(view: ModelView) -> ModelShape:
    """Return the sizes of a model that is not quantized; its tensors may be on the meta device."""
    config: Any = view.model.config
    layout = view.layout
    gated = {projection.linear for layer in view.layers for projection in layer.projections.values()}
    linears = [module for module in view.model.modules() if isinstance(module, nn.Linear)]
    buffers = view.model.named_buffers()
    norms = [module for module in view.model.modules() if _is_norm(module)]
    rms = [norm for norm in norms if type(norm).__name__.endswith("RMSNorm")]
    return ModelShape(
        layout=layout,
        inputs=tuple(
            tuple(layer.projections[name].linear.in_features for name in layout.projections) for layer in view.layers
        ),
        fused=view.layers[0].projections["q"].linear is view.layers[0].projections["k"].linear,
        hidden_size=view.hidden_size,
        heads=view.heads,
        kv_heads=view.kv_heads,
        head_dim=view.head_dim,
        rotary_dim=max((2 * each.numel() for name, each in buffers if name.endswith("inv_freq")), default=0),
        windows=_windows(config, layout.layers),
        head_weights=view.head.weight.numel(),
        further_weights=sum(
            linear.weight.numel() for linear in linears if linear not in gated and linear is not view.head
        ),
        embedding_row=sum(module.embedding_dim for module in view.model.modules() if isinstance(module, nn.Embedding)),
        rms_norm_inputs=_norm_inputs(rms, view),
        layer_norm_inputs=_norm_inputs([norm for norm in norms if norm not in rms], view),
        norm_weights=sum(parameter.numel() for norm in norms for parameter in norm.parameters()),
        biases=sum(linear.bias.numel() for linear in linears if linear.bias is not None),
        biased=tuple(name for name, each in view.layers[0].projections.items() if each.linear.bias is not None),
        dtype=str(view.embedding.weight.dtype).removeprefix("torch."),
    )


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and isinstance(getattr(module, "weight", None), nn.Parameter)


def _norm_inputs(norms: Iterable[nn.Module], view: ModelView) -> int:
    """Return the inputs of these norms for one token.

    A norm is called once, except one that an attention has for its queries or keys and that is as wide as one head:
    that is called for each head. A separate norm for each head (stablelm) lies one level deeper.
    """
    heads = {
        norm: view.heads if name.startswith("q") else view.kv_heads
        for layer in view.layers
        for name, norm in layer.attention.named_children()
        if _is_norm(norm)
    }
    total = 0
    for norm in norms:
        width: int = cast(Any, norm).weight.numel()
        total += width * heads.get(norm, 1) if width == view.head_dim else width
    return total


def _windows(config: Any, layers: int) -> tuple[int | None, ...]:
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    return tuple(window if kind == "sliding_attention" else None for kind in types)
