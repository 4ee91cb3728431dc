"""Numbers of a loaded model: sizes, dtype, memory and possible rotations."""

import math
from typing import Any

from torch import nn

from wina_core.compute.models.folded_norms import folded_names
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import quantized_weights
from wina_core.compute.models.shape import model_shape
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.model_info.cost.describe import remarks
from wina_core.model_info.families import ROTATED, rotation_reason
from wina_core.records import ModelSummary
from wina_core.specs import ROTATION_MODES


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
        gated_parameters=sum(math.prod(each.shape) for part in view.parts for each in part.projections.values()),
        memory_bytes=sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *buffers)),
        rotations=tuple(mode for mode in modes if mode not in view.refused_rotations),
        rotation_reason=rotation_reason(view.refused_rotations) if shortcuts == "none" else ROTATED,
        chat_template=bool(loaded.tokenizer.chat_template),
        shape=model_shape(view).model_copy(update={"shortcuts": shortcuts, "folded": folded_names(view)}),
        quantization=loaded.quantization_report,
        remarks=() if loaded.folder is None else remarks(loaded.source, loaded.folder),
    )
