"""A model's sizes, read off a loaded model, or off one built from its config.json on the meta device; and a summary."""

import math
from collections.abc import Iterable
from typing import Any, cast

from torch import nn

from wina_core.compute.models.describe import describe
from wina_core.compute.models.folded_norms import folded_names, has_stream_gains
from wina_core.compute.models.loading import LoadedModel, fetched_folder
from wina_core.compute.models.quantized_linear import quantized_weights
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.model_info.cost.describe import remarks
from wina_core.model_info.families import FURTHER_BIASES, ROTATED, rotation_reason
from wina_core.model_info.model_checks import read_supported
from wina_core.model_info.sizes import suited
from wina_core.records import ModelShape, ModelSummary
from wina_core.specs import ROTATION_MODES, ModelSource


def empty_model(source: ModelSource, reporter: Reporter) -> Any:
    """Return the model of a config.json on the meta device, without allocation; of a hub id only that file is fetched.

    Its dtype is the source's, or with "auto" what suits the processor: the config's, or else float32. Raises WinaError
    for what `load_model` refuses by the config alone.
    """
    folder = fetched_folder(source, reporter, ("config.json",))
    read_supported(folder)
    return describe(folder, suited(source, folder).dtype)


def model_shape(view: ModelView) -> ModelShape:
    """Return the sizes of a model that is not quantized; its tensors may be on the meta device."""
    config: Any = view.model.config
    layout = view.layout
    gated = {projection.linear for layer in view.parts for projection in layer.projections.values()}
    routers = [reader for layer in view.layers for reader in layer.further_readers if not isinstance(reader, nn.Linear)]
    idle = sum(map(_idle_biases, view.layers))
    linears = [module for module in view.model.modules() if isinstance(module, nn.Linear)]
    buffers = view.model.named_buffers()
    tables = [module for module in view.model.modules() if isinstance(module, nn.Embedding)]
    norms = [module for module in view.model.modules() if _is_norm(module)]
    rms = [norm for norm in norms if type(norm).__name__.endswith("RMSNorm")]
    return ModelShape(
        layout=layout,
        inputs=tuple(tuple(layer.shape(name)[1] for name in layout.projections) for layer in view.layers),
        fused=view.layers[0].projections["q"].linear is view.layers[0].projections["k"].linear,
        hidden_size=view.hidden_size,
        heads=view.heads,
        kv_heads=view.kv_heads,
        head_dim=view.head_dim,
        # A frequency turns a pair of dimensions.
        rotary_dim=max((2 * buffer.numel() for name, buffer in buffers if name.endswith("inv_freq")), default=0),
        windows=attention_windows(config, layout.layers),
        head_weights=view.head.in_features * view.head.out_features,
        further_weights=sum(
            linear.in_features * linear.out_features
            for linear in linears
            if linear not in gated and linear is not view.head
        )
        + sum(cast(Any, router).weight.numel() for router in routers),
        embedding_row=sum(table.embedding_dim for table in tables),
        embedding_weights=sum(table.num_embeddings * table.embedding_dim for table in tables),
        # A quantized head makes its `weight` anew on every access, so that it is never that of the embedding.
        tied_head=type(view.head) is nn.Linear and view.head.weight is view.embedding.weight,
        rms_norm_inputs=_norm_inputs(rms, view),
        layer_norm_inputs=_norm_inputs([norm for norm in norms if norm not in rms], view),
        norm_weights=sum(parameter.numel() for norm in norms for parameter in norm.parameters()),
        biases=sum(_biases(module) for module in (*linears, *routers)) + _further_biases(view) - idle,
        stream_gains=has_stream_gains(view),
        biased=tuple(name for name in layout.projections if _is_biased(view, name)),
        experts=tuple(len(layer.experts) for layer in view.layers) if view.has_experts else (),
        active_experts=max(layer.active for layer in view.layers),
        idle_biases=idle,
        dtype=str(view.embedding.weight.dtype).removeprefix("torch."),
    )


def _is_biased(view: ModelView, name: str) -> bool:
    return next(view.layers[0].matrices((name,))).linear.bias is not None


def _biases(module: nn.Module) -> int:
    bias = getattr(module, "bias", None)
    return 0 if bias is None else bias.numel()


def _further_biases(view: ModelView) -> int:
    return sum(parameter.numel() for name, parameter in view.model.named_parameters() if name.endswith(FURTHER_BIASES))


def _idle_biases(layer: LayerView) -> int:
    """Return the biases of the experts that a token does not read."""
    if not layer.experts:
        return 0
    of_one = sum(_biases(projection.linear) for projection in layer.experts[0].projections.values())
    return (len(layer.experts) - layer.active) * of_one


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


def attention_windows(config: Any, layers: int) -> tuple[int | None, ...]:
    """Return how many positions each layer's attention sees, the own one included; None for all."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention"] * layers
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def summarize(loaded: LoadedModel) -> ModelSummary:
    """Return sizes, dtype and memory of a model; a tied embedding counts once."""
    config: Any = loaded.model.config
    view = loaded.view
    parameters = list(loaded.model.parameters())
    buffers = list(loaded.model.buffers())
    shortcuts = loaded.rotation.mode if loaded.rotation and shortcut_parameters(loaded.model) else "none"
    modes = ROTATION_MODES if shortcuts == "none" else ("none",)
    return ModelSummary(
        location=loaded.source.location,
        fingerprint=loaded.source.fingerprint,
        architecture=type(loaded.model).__name__,
        family=view.family,
        layout=view.layout,
        hidden_size=view.hidden_size,
        intermediate_size=view.layers[0].shape("down")[1],
        heads=view.heads,
        kv_heads=view.kv_heads,
        head_dim=view.head_dim,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
        tied_embeddings=type(view.head) is nn.Linear and view.head.weight is view.embedding.weight,
        dtype=str(view.embedding.weight.dtype).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in parameters) + quantized_weights(loaded.model),
        gated_parameters=sum(
            math.prod(projection.shape) for layer in view.parts for projection in layer.projections.values()
        ),
        memory_bytes=sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *buffers)),
        rotations=tuple(mode for mode in modes if mode not in view.refused_rotations),
        rotation_reason=rotation_reason(view.refused_rotations) if shortcuts == "none" else ROTATED,
        chat_template=bool(loaded.tokenizer.chat_template),
        shape=model_shape(view).model_copy(update={"shortcuts": shortcuts, "folded": folded_names(view)}),
        quantization=loaded.quantization_report,
        remarks=() if loaded.folder is None else remarks(loaded.source, loaded.folder),
    )
