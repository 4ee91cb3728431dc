"""Experts of a Mixture of Experts in a config and in the headers of weight files."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from wina_core.model_info.safetensors_header import TensorEntry

TOTAL = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Names in a config for the experts of a layer."""
ACTIVE = ("num_experts_per_tok", "moe_k")
"""Names in a config for the experts that a token reads."""
MOST = 4096
"""Several times the experts of published models."""
FURTHER_TOKENS = "mtp"
"""Part of the names of weights that predict further tokens, beside the decoder's layers; they are not loaded."""
_LINEARS = ("gate_proj", "up_proj", "down_proj")
_MIXTRAL = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
_MIXTRAL_NAME = re.compile(r"(\.experts\.\d+\.)(w[123])\.")
_STACKED = re.compile(r"\.experts\.(gate_up_proj|down_proj)(_bias)?$")
_ONE = re.compile(r"(?:^|\.)(\d+)\.mlp\.experts\.(\d+)\.(\w+)\.weight$")
_DENSE = re.compile(r"(?:^|\.)(\d+)\.mlp\.down_proj\.weight$")


def stated(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value that a config has under the first of these names; None without one."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def separate(weights: Mapping[str, TensorEntry], hidden: int) -> dict[str, TensorEntry]:
    """Return the tensors with those of experts by the names of their linear layers, ".mlp.experts.3.up_proj.weight".

    Files hold a tensor for each expert, or stacks of all of them whose linear layers read or write `hidden` values.
    """
    found: dict[str, TensorEntry] = {}
    for name, entry in weights.items():
        stacked = _STACKED.search(name)
        if stacked is None:
            single = _MIXTRAL_NAME.sub(lambda match: f"{match[1]}{_MIXTRAL[match[2]]}.", name)
            found[single.replace(".block_sparse_moe.", ".mlp.")] = entry
        elif entry.shape and 0 < entry.shape[0] <= MOST:
            found |= _unstacked(name[: stacked.start()], stacked[1], "bias" if stacked[2] else "weight", entry, hidden)
    return found


def _unstacked(path: str, linear: str, kind: str, entry: TensorEntry, hidden: int) -> dict[str, TensorEntry]:
    """Return the tensors of each expert in a stack, whose rows and columns may be exchanged."""
    names = ("gate_proj", "up_proj") if linear == "gate_up_proj" else (linear,)
    size = entry.elements // entry.shape[0] // len(names)
    inner = (size // hidden,)
    if kind == "bias":
        shape: tuple[int, ...] = (size,)
    else:
        shape = (hidden, *inner) if linear == "down_proj" else (*inner, hidden)
    one = entry.model_copy(update={"shape": shape})
    return {f"{path}.experts.{number}.{name}.{kind}": one for number in range(entry.shape[0]) for name in names}


def held_experts(weights: Mapping[str, TensorEntry], layers: int) -> dict[int, int]:
    """Return the number of whole experts that separated weights hold for each layer without a dense MLP."""
    names = [name for name in weights if FURTHER_TOKENS not in name]
    dense = {int(found[1]) for name in names if (found := _DENSE.search(name))}
    parts: dict[tuple[int, int], set[str]] = {}
    for name in names:
        if found := _ONE.search(name):
            parts.setdefault((int(found[1]), int(found[2])), set()).add(found[3])
    whole = Counter(layer for (layer, _), linears in parts.items() if linears.issuperset(_LINEARS))
    return {layer: whole[layer] for layer in range(layers) if layer not in dense}
