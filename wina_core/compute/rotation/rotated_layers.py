"""Rotated layers in a folder, so that memory holds one at a time and an interrupted rotation continues."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from wina_core.compute.models.folded_norms import is_folded, restore_folded
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.shortcuts import is_shortcut, restore_shortcut
from wina_core.compute.models.view import LayerView
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import LayerRecord

_RECORDS = "records"


class RotatedLayers:
    """The changed weights of a model that is read from its files: a file for each layer, and for what is outside."""

    def __init__(self, mapped: MappedWeights, folder: Path, reporter: Reporter) -> None:
        self._mapped, self._folder, self._reporter = mapped, folder, reporter

    def keep(self, module: nn.Module, name: str) -> None:
        """Move the changed weights of a module outside the layers to a file."""
        self._mapped.move(module, self._folder / f"{name}.safetensors")
        self._mapped.give_back(module)

    def keep_layer(self, layer: LayerView, records: Sequence[LayerRecord]) -> None:
        """Move a layer's changed weights to a file, with what was measured on them."""
        note = json.dumps([record.model_dump(mode="json") for record in records])
        self._mapped.move(layer.module, self._file(layer), {_RECORDS: note})
        self._mapped.give_back(layer.module)

    def restore(self, layer: LayerView) -> tuple[LayerRecord, ...] | None:
        """Give a layer the weights that were kept, and return what was measured on them; None if there are none."""
        file = self._file(layer)
        if not file.exists():
            return None
        try:
            with safe_open(file, framework="pt") as opened:
                note = opened.metadata() or {}
            records = tuple(LayerRecord.model_validate(each) for each in json.loads(note[_RECORDS]))
            self._mapped.read(layer.module, file, partial(_register, layer))  # last: a layer is changed whole or not
        except (OSError, SafetensorError, WinaError, KeyError, ValueError) as error:
            self._reporter.log("warning", f"Layer {layer.index} is rotated again. {error}")
            return None
        return records

    def _file(self, layer: LayerView) -> Path:
        return self._folder / f"layer-{layer.index}.safetensors"


def _register(layer: LayerView, name: str, tensor: Tensor) -> None:
    """Add what rotating adds to a layer beside its own weights."""
    if is_shortcut(name):
        restore_shortcut(layer, name, tensor)
    elif is_folded(name):
        restore_folded(layer, name, tensor)
