"""Quantized weights in a safetensors file, so that a model is quantized once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor
from wina_kernels.planes import PlaneWeight
from wina_kernels.weights import MixedWeight, QuantizedWeight

from wina_core.compute.stages import save_atomically
from wina_core.errors import WinaError

Stored = QuantizedWeight | MixedWeight | PlaneWeight
_FORM = "weights"


@dataclass(eq=False)
class QuantizedSites:
    """Quantized W^T of linear layers, by the name of their site and their own: "3.q" and "q", "k" or "v"."""

    weights: dict[tuple[str, str], Stored] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the weights atomically; an order that several of a site share is written once.

        Raises WinaError if the disk refuses.
        """
        tensors: dict[str, Tensor] = {}
        forms: list[dict[str, Any]] = []
        for (site, name), weight in self.weights.items():
            runs = weight.runs if isinstance(weight, MixedWeight) else [weight]
            order = weight.order if isinstance(weight, MixedWeight) else None
            if order is not None:
                tensors[f"{site}.order"] = order.cpu()
            for place, run in enumerate(runs):
                tensors |= {f"{site}/{name}.{place}.{part}": value for part, value in _tensors(run).items()}
            forms.append(
                {"site": site, "name": name, "ordered": order is not None, "runs": [_form(run) for run in runs]}
            )
        try:
            save_atomically(tensors, path, {_FORM: json.dumps(forms)})
        except (OSError, SafetensorError) as error:
            raise WinaError(
                f"The quantized weights could not be written to {path} ({error}); free some space."
            ) from error

    @classmethod
    def load(cls, path: Path) -> "QuantizedSites":
        """Read what `save` wrote; WinaError for a damaged file."""
        try:
            with safe_open(path, framework="pt") as file:
                forms = json.loads((file.metadata() or {})[_FORM])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return cls({(form["site"], form["name"]): _weight(form, tensors) for form in forms})
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise WinaError(f"{path} holds no complete quantized weights ({error}).") from error


def _tensors(run: Tensor | QuantizedWeight | PlaneWeight) -> dict[str, Tensor]:
    if isinstance(run, Tensor):
        return {"values": run.contiguous().cpu()}
    names = ("codes", "scale", "planes" if isinstance(run, PlaneWeight) else "zero")
    parts = {name: getattr(run, name) for name in names}
    return {name: part.contiguous().cpu() for name, part in parts.items() if part is not None}


def _form(run: Tensor | QuantizedWeight | PlaneWeight) -> dict[str, Any]:
    if isinstance(run, Tensor):
        return {}
    if isinstance(run, PlaneWeight):
        return {"outputs": run.outputs, "errors": run.errors}
    return {"group": run.group, "bits": run.bits, "signed": run.signed}


def _weight(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Stored:
    runs: list[Tensor | QuantizedWeight] = []
    for place, run in enumerate(form["runs"]):
        prefix = f"{form['site']}/{form['name']}.{place}."
        if not run:
            runs.append(tensors[f"{prefix}values"])
            continue
        codes, scale, zero = tensors[f"{prefix}codes"], tensors[f"{prefix}scale"], tensors.get(f"{prefix}zero")
        if "errors" in run:
            return PlaneWeight(codes, scale, tensors.get(f"{prefix}planes"), run["outputs"], tuple(run["errors"]))
        runs.append(QuantizedWeight(codes, scale, zero, **run))
    (first, *_) = runs
    if not form["ordered"] and isinstance(first, QuantizedWeight):
        return first
    return MixedWeight(runs, tensors[f"{form['site']}.order"])
