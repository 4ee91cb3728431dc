"""What a calibration found, and the thresholds it gives for any plan."""

import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.gating.rules import Thresholds
from wina_core.plan import PlanLayout, SparsityPlan
from wina_core.records import CalibrationRecord, LayerRecord

FRACTIONS = tuple(index / 2000 for index in range(2001))
"""Where quantiles are kept: every 0.05 percentage points."""
ERROR_SPARSITIES = tuple(round(0.05 * index, 2) for index in range(20))
"""Where error curves are measured: 0, 5, ... 95 %."""

_FORMAT = "wina calibration 1"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Score quantiles and error curves of every gated matrix of one model, rotation and method."""

    layout: PlanLayout
    tokens: int
    quantiles: Tensor
    """Score thresholds at FRACTIONS, float32 [layer, projection, fraction]; NaN where the method does not gate."""
    errors: Tensor
    """Relative output errors at ERROR_SPARSITIES, float32 [layer, projection, sparsity]; NaN likewise."""

    def thresholds(self, plan: SparsityPlan) -> Thresholds:
        """The thresholds for a plan's targets; WinaError when the plan was made for another model."""
        plan.for_layout(self.layout)
        return tuple(
            tuple(self._threshold(layer, column, target) for column, target in enumerate(row))
            for layer, row in enumerate(plan.sparsity)
        )

    def record(self, key: str, seconds: float) -> CalibrationRecord:
        """Thresholds and relative errors at ERROR_SPARSITIES, as the store keeps them."""
        layers = []
        for layer in range(self.layout.layers):
            for column, projection in enumerate(self.layout.projections):
                for index, target in enumerate(ERROR_SPARSITIES):
                    threshold, error = self._threshold(layer, column, target), float(self.errors[layer, column, index])
                    for metric, value in (("threshold", threshold), ("relative_error", error)):
                        if not math.isnan(value):
                            layers.append(
                                LayerRecord(layer=layer, projection=projection, metric=metric, value=value, x=target)
                            )
        return CalibrationRecord(key=key, tokens=self.tokens, layers=tuple(layers), seconds=seconds)

    def save(self, path: Path) -> None:
        """Write a safetensors file, completely or not at all."""
        metadata = {"format": _FORMAT, "tokens": str(self.tokens), "layout": self.layout.model_dump_json()}
        content = save({"quantiles": self.quantiles, "errors": self.errors}, metadata)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink()
            raise

    @classmethod
    def load(cls, path: Path) -> "Calibration":
        """Read what `save` wrote; WinaError when the file is damaged or of another version."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") == _FORMAT:
                    layout = PlanLayout.model_validate(json.loads(metadata["layout"]))
                    tensors = file.get_tensor("quantiles"), file.get_tensor("errors")
                    return cls(layout, int(metadata["tokens"]), *tensors)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise WinaError(f"The calibration {path} cannot be read; delete it and calibrate again.") from error
        raise WinaError(f"The calibration {path} is of another version; delete it and calibrate again.")

    def _threshold(self, layer: int, column: int, target: float) -> float:
        position = target * (len(FRACTIONS) - 1)
        lower = min(int(position), len(FRACTIONS) - 2)
        below, above = self.quantiles[layer, column, lower : lower + 2].tolist()
        return below + (position - lower) * (above - below)
