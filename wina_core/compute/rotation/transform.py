"""Rotation of a loaded model by a RotationSpec."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from wina_core.compute import pausable_clock
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.folded_norms import fold_norms, foldable, is_folded, restore_folded, unfold_norms
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import probe_logits, relative_deviation
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.shortcuts import is_shortcut, restore_shortcut, shortcut_parameters
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases, apply_bases
from wina_core.compute.rotation.centring import mean_kept
from wina_core.compute.rotation.choose import choose_bases
from wina_core.compute.rotation.matrices import collected, given_bases
from wina_core.compute.rotation.measure import layer_energies, off_diagonal_energies
from wina_core.compute.rotation.search import Search
from wina_core.errors import WinaError
from wina_core.model_info.folding import choice_under
from wina_core.records import BasesRecord, LayerRecord, RotationReport
from wina_core.specs import ROTATION_MODES, RotationSpec, TextSpec

_PROBE_TOKENS = 256
_PROBE_SEQUENCE = 128


def rotate(
    loaded: LoadedModel,
    spec: RotationSpec,
    reporter: Reporter,
    into: dict[str, Tensor] | None = None,
    bases: Iterator[LayerBases] | None = None,
    known: BasesRecord | None = None,
    search: Search | None = None,
    scratch: Path | None = None,
) -> RotationReport:
    """Rotate `loaded.model` in place and measure the result.

    Args:
        loaded: The model.
        spec: The rotation.
        reporter: Progress and cancellation.
        into: Receives the bases, on the CPU, as `save_matrices` takes them.
        bases: Bases of an earlier call with the same spec and model, used instead of finding them.
        known: The search for these bases, for the report.
        search: The reported steps of a refinement, and finished stages of an interrupted search.
        scratch: Folder for the changed weights of a model that is read from its files, layer by layer; those of an
            interrupted call with the same arguments are used again.

    Raises WinaError for bad input, including logits that are not numbers, before the model is touched. After a
    cancellation, or a WinaError for activations or rotated logits that are not numbers, the model is half rotated: load
    it again. Peak memory beside the model: about ten float64 [d, d] matrices, 512 rows of one weight and, with
    activations, one copy of the text's hidden states. An untied head and the shortcuts remain. With `scratch`
    and mapped weights, two layers are in memory instead of the model.
    """
    if shortcut_parameters(loaded.model):
        raise WinaError("This model already has residual shortcuts from a rotation; open the original model instead.")
    check_rotation(loaded.view, spec)
    unfold_norms(loaded.view)
    probe_text = TextSpec(source=spec.text.source, tokens=_PROBE_TOKENS, sequence=_PROBE_SEQUENCE)
    probe = read_tokens(probe_text, loaded.tokenizer)
    view = loaded.view
    dense = probe_logits(view, probe)
    check_numbers(dense)
    reporter.check()

    search = search or Search(reporter)
    dense_residuals = layer_energies(view, reporter, search) if known is None else known.dense_residuals
    folded = foldable(view, choice_under(spec.fold_norms, loaded.source.quantization))
    residuals: dict[int, tuple[LayerRecord, ...]] = {}
    kept = None
    if scratch is not None and view.mapped is not None:
        kept = RotatedLayers(view.mapped, scratch, reporter)

    def finish(layer: LayerView) -> None:
        alone = replace(view, layers=(layer,))
        found = off_diagonal_energies(alone)
        residuals[layer.index] = found
        fold_norms(alone, folded)
        if kept is not None:
            kept.keep_layer(layer, found)

    def restore(layer: LayerView) -> bool:
        found = None if kept is None else kept.restore(layer)
        if found is not None:
            residuals[layer.index] = found
        return found is not None

    start = pausable_clock.now()
    if spec.turns:
        if bases is None and spec.matrices:
            bases = given_bases(view, spec, Path(spec.matrices).expanduser())
        elif bases is None:
            tokens = read_tokens(spec.text, loaded.tokenizer) if spec.reads_text else None
            bases = choose_bases(view, spec, tokens, reporter, search)
        if view.centred:
            bases = mean_kept(bases)
        apply_bases(view, bases if into is None else collected(bases, spec, into), reporter, finish, restore)
        if kept is not None:
            kept.keep(view.embedding, "embedding")
            kept.keep(view.head, "head")
    else:
        for layer in view.layers:
            if not restore(layer):
                finish(layer)
    seconds = pausable_clock.now() - start

    deviation = relative_deviation(probe_logits(view, probe), dense)
    if not math.isfinite(deviation):
        raise WinaError(
            "The rotated model's logits are not numbers, though the original's are; open the model in bfloat16 or "
            "float32 instead."
        )
    report = RotationReport(
        rotation=spec.content_hash(),
        logits_deviation=deviation,
        residuals=tuple(chain.from_iterable(found for _, found in sorted(residuals.items()))),
        shortcut_parameters=shortcut_parameters(loaded.model),
        seconds=seconds + (search.earlier_seconds if known is None else known.seconds),
        dense_residuals=dense_residuals,
        refinement=tuple(search.steps) if known is None else known.refinement,
        folded=folded,
    )
    loaded.rotation, loaded.rotation_report = spec, report
    return report


def check_rotation(view: ModelView, spec: RotationSpec) -> None:
    """Raise WinaError, with the reason, for a rotation that is not exact or names a missing basis."""
    if spec.mode in view.refused_rotations:
        possible = " or ".join(mode for mode in ROTATION_MODES if mode not in view.refused_rotations)
        raise WinaError(
            f"This {view.family} model has no exact {spec.mode} rotation, because {view.refused_rotations[spec.mode]}; "
            f"choose {possible}{' with heads' * bool(view.obstacle)}."
        )
    if spec.mode != "none" and not spec.matrices and "gate" in spec.mlp_basis and "gate" not in view.projections:
        raise WinaError(
            f'The MLP of this {view.family} model has no gate; choose the basis "gate_up" or "activations".'
        )


# Rotated layers in a folder, so that memory holds one at a time and an interrupted rotation continues.

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
