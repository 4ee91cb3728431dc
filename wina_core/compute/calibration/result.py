"""The result of a calibration: thresholds for any plan, error curves and input vectors."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute.stages import save_atomically
from wina_core.errors import WinaError
from wina_core.model_info.safetensors_header import read_safetensors_header
from wina_core.records import EXPERT_TOKENS, THRESHOLD_METRICS, CalibrationRecord, ExpertRecord, LayerRecord
from wina_core.specs import Selection
from wina_core.specs.gates import FRACTIONS, threshold_at
from wina_core.specs.plans import Cell, PlanLayout, Rows

ERROR_SPARSITIES = tuple(round(0.05 * index, 2) for index in range(20))
"""Sparsities at which error and energy curves are measured: 0, 5, ... 95 %."""
THRESHOLD_SPARSITIES = tuple(
    FRACTIONS[index]
    for index in (0, 1, *range(20, 100, 20), *range(100, 1600, 100), *range(1600, 2000, 20), 1990, 1999)
)
"""Sparsities whose thresholds the store keeps: every 5 percentage points, every single one below 5 and above 80 %
(thresholds rise steeply there), and the ends. Linear interpolation is good to a few percent from 1 to 99 %."""

Thresholds = tuple[tuple[float, ...], ...]
"""Thresholds of scores, [layer][projection] like a plan; a negative one keeps everything."""

_FORMAT = "wina calibration 2"
_VECTORS = {"centre": "centres", "means": "means", "tuned": "tuned", "experts": "experts", "tokens": "expert_tokens"}
"""Fields of a calibration that some cells lack, by the kind that names them in a file."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Score quantiles, error curves and input vectors of every gated matrix of one model, rotation and method."""

    layout: PlanLayout
    tokens: int
    quantiles: Tensor
    """Quantiles of the selection's scores at FRACTIONS, float32 [layer, projection, fraction]; NaN where not gated."""
    errors: Tensor
    """Relative output errors at ERROR_SPARSITIES, float32 [layer, projection, sparsity]; NaN likewise."""
    energies: Tensor
    """Kept energies at ERROR_SPARSITIES (`calibrate.loss_curves`), float32 [layer, projection, sparsity]; NaN
    likewise."""
    centres: dict[Cell, Tensor] = field(default_factory=dict)
    """Centres that inputs are scored by their distance from, float32 [n], or [1] if shared; empty unless centred."""
    means: dict[Cell, Tensor] = field(default_factory=dict)
    """Mean of each input over the tokens that drop it, at ERROR_SPARSITIES, float32 [sparsity, n]; empty unless the
    method corrects by it."""
    tuned: dict[Cell, Tensor] = field(default_factory=dict)
    """Biases of the gated matrices, tuned for one plan, float32 [m]; empty unless the method corrects by them."""
    experts: dict[Cell, Tensor] = field(default_factory=dict)
    """Quantiles of each expert's scores, float32 [experts, fraction], where a layer has experts."""
    expert_tokens: dict[Cell, Tensor] = field(default_factory=dict)
    """Tokens that each expert read, int64 [experts]; empty in files of versions that did not keep them."""

    @classmethod
    def empty(cls, layout: PlanLayout, tokens: int) -> "Calibration":
        """Return a calibration on so many tokens in which nothing is measured yet."""

        def unknown(points: int) -> Tensor:
            return torch.full((layout.layers, len(layout.projections), points), torch.nan)

        steps = len(ERROR_SPARSITIES)
        return cls(layout, tokens, unknown(len(FRACTIONS)), unknown(steps), unknown(steps))

    def vectors(self, cell: Cell, target: float, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return (centre, replacement) of a cell whose mask drops the target fraction, each [n], like `like` [..., n].

        The replacement is the interpolated mean of dropped inputs, or else the centre.
        """
        centre = None
        if cell in self.centres:
            centre = self.centres[cell].to(like.device, like.dtype).expand(like.shape[-1])
        replacement = _between(self.means[cell], target).to(like.device, like.dtype) if cell in self.means else centre
        return centre, replacement

    def of_layers(self, layers: Sequence[int]) -> "Calibration":
        """Return the results of these decoder layers, renumbered by their places."""
        indices = {layer: index for index, layer in enumerate(layers)}

        def of_chosen(vectors: dict[Cell, Tensor]) -> dict[Cell, Tensor]:
            return {(indices[layer], column): vector for (layer, column), vector in vectors.items() if layer in indices}

        return Calibration(
            PlanLayout(
                projections=self.layout.projections,
                parameters=tuple(self.layout.parameters[layer] for layer in layers),
            ),
            self.tokens,
            self.quantiles[list(layers)],
            self.errors[list(layers)],
            self.energies[list(layers)],
            **{name: of_chosen(getattr(self, name)) for name in _VECTORS.values()},
        )

    def thresholds(self, fractions: Rows) -> Thresholds:
        """Return the thresholds at fractions of the scores, both [layer][projection]."""
        return tuple(
            tuple(self.threshold(layer, column, fraction) for column, fraction in enumerate(row))
            for layer, row in enumerate(fractions)
        )

    def record(self, key: str, seconds: float, selection: Selection = "topk") -> CalibrationRecord:
        """Return the stored record: thresholds at THRESHOLD_SPARSITIES, errors and energies at ERROR_SPARSITIES."""
        layers = []
        for layer in range(self.layout.layers):
            for column, projection in enumerate(self.layout.projections):
                thresholds = [self.threshold(layer, column, target) for target in THRESHOLD_SPARSITIES]
                for metric, at, values in (
                    (THRESHOLD_METRICS[selection], THRESHOLD_SPARSITIES, thresholds),
                    ("relative_error", ERROR_SPARSITIES, self.errors[layer, column].tolist()),
                    ("kept_energy", ERROR_SPARSITIES, self.energies[layer, column].tolist()),
                ):
                    layers += [
                        LayerRecord(layer=layer, projection=projection, metric=metric, value=value, x=target)
                        for target, value in zip(at, values, strict=True)
                        if not math.isnan(value)
                    ]
        experts = tuple(
            ExpertRecord(
                layer=layer,
                projection=self.layout.projections[column],
                metric=EXPERT_TOKENS,
                values=tuple(tokens.tolist()),
            )
            for (layer, column), tokens in self.expert_tokens.items()
        )
        return CalibrationRecord(key=key, tokens=self.tokens, layers=tuple(layers), experts=experts, seconds=seconds)

    def tensors(self) -> dict[str, Tensor]:
        vectors: dict[str, Tensor] = {}
        for kind, name in _VECTORS.items():
            vectors |= _to_named(kind, getattr(self, name))
        return {"quantiles": self.quantiles, "errors": self.errors, "energies": self.energies, **vectors}

    @property
    def digest(self) -> str:
        content_hash = hashlib.sha256()
        for name, tensor in sorted(self.tensors().items()):
            content_hash.update(name.encode())
            content_hash.update(tensor.contiguous().numpy().tobytes())
        return content_hash.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write a safetensors file atomically."""
        metadata = {"format": _FORMAT, "tokens": str(self.tokens), "layout": self.layout.model_dump_json()}
        save_atomically(self.tensors(), path, metadata)

    @classmethod
    def load(cls, path: Path) -> "Calibration":
        """Read a file of `save`; raise WinaError if it is damaged or of another version."""
        try:
            read_safetensors_header(path, "calibration")
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") == _FORMAT:
                    layout = PlanLayout.model_validate(json.loads(metadata["layout"]))
                    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
                    calibration = cls(
                        layout,
                        int(metadata["tokens"]),
                        tensors["quantiles"],
                        tensors["errors"],
                        tensors["energies"],
                        **{name: _from_named(tensors, kind) for kind, name in _VECTORS.items()},
                    )
                    calibration._check()
                    return calibration
        except (OSError, SafetensorError, LookupError, ValueError, RecursionError, WinaError) as error:
            raise WinaError(f"The calibration {path} cannot be read; delete it and calibrate again.") from error
        raise WinaError(f"The calibration {path} is of another version; delete it and calibrate again.")

    def _check(self) -> None:
        """Raise ValueError for tensors that are not of the layout, or hold values that none can have."""
        cells = self.layout.layers, len(self.layout.projections)
        steps = len(ERROR_SPARSITIES)
        for curves, points in ((self.quantiles, len(FRACTIONS)), (self.errors, steps), (self.energies, steps)):
            if curves.shape != (*cells, points) or curves.dtype != torch.float32 or curves.isinf().any():
                raise ValueError("a curve")
        missing = self.quantiles.isnan()
        if not (missing.any(-1) == missing.all(-1)).all():
            raise ValueError("a threshold")
        for vectors, shape in ((self.centres, ()), (self.means, (steps,)), (self.tuned, ())):
            for (layer, column), vector in vectors.items():
                is_valid = layer < cells[0] and column < cells[1] and vector.shape[:-1] == shape
                if not is_valid or vector.dtype != torch.float32 or not vector.isfinite().all():
                    raise ValueError("a vector")
        for (layer, column), quantiles in self.experts.items():
            is_valid = layer < cells[0] and column < cells[1] and quantiles.shape[1:] == (len(FRACTIONS),)
            if not is_valid or quantiles.dtype != torch.float32 or not quantiles.isfinite().all():
                raise ValueError("an expert's threshold")
        for cell, tokens in self.expert_tokens.items():
            if cell not in self.experts or tokens.shape != self.experts[cell].shape[:1] or (tokens < 0).any():
                raise ValueError("an expert's tokens")

    def threshold(self, layer: int, column: int, target: float, expert: int | None = None) -> float:
        """Return the threshold of the cell's scores, or of one expert's, that drops the target fraction."""
        whole = expert is None or (layer, column) not in self.experts
        return threshold_at(self.quantiles[layer, column] if whole else self.experts[layer, column][expert], target)


def _between(means: Tensor, target: float) -> Tensor:
    """Interpolate [sparsity, n] linearly between ERROR_SPARSITIES; the last row holds beyond them."""
    position = min(target / ERROR_SPARSITIES[1], len(ERROR_SPARSITIES) - 1)
    lower = min(int(position), len(ERROR_SPARSITIES) - 2)
    return torch.lerp(means[lower], means[lower + 1], position - lower)


def _to_named(kind: str, vectors: Mapping[Cell, Tensor]) -> dict[str, Tensor]:
    """Return the vectors of cells by the names that they have in a file."""
    return {f"{kind}.{layer}.{column}": vector.clone() for (layer, column), vector in vectors.items()}


def _from_named(tensors: Mapping[str, Tensor], kind: str) -> dict[Cell, Tensor]:
    split = [(name.split("."), tensor) for name, tensor in tensors.items()]
    return {(int(name[1]), int(name[2])): tensor for name, tensor in split if name[0] == kind}
