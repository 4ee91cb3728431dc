"""Rotation of a loaded model by a RotationSpec, and export of the rotated model as a Hugging Face folder."""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import modeling_utils

from wina_core.compute import pausable_clock
from wina_core.compute.hooks import attributes
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.folded_norms import (
    all_folded_norms,
    fold_norms,
    foldable,
    unfold_norms,
)
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import probe_logits, relative_deviation
from wina_core.compute.models.mapped import MappedWeights, converted_in_files, give_back_converted
from wina_core.compute.models.shortcuts import (
    NORMS_FILE,
    ROTATION_FILE,
    SHORTCUTS_FILE,
    RotationFile,
    is_shortcut,
    shortcut_parameters,
    shortcuts,
)
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases, apply_bases
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.comparison import layer_energies, off_diagonal_energies
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.matrices import copy_bases, read_bases
from wina_core.compute.rotation.statistics import preserve_mean_of_layers
from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.model_info.folding import choice_under
from wina_core.records import BasesRecord, LayerRecord, RotationReport
from wina_core.specs import MATRICES_FILE, ROTATION_MODES, RotationSpec, TextSpec

_PROBE_TOKENS = 256
_PROBE_SEQUENCE = 128


def rotate(
    loaded: LoadedModel,
    spec: RotationSpec,
    reporter: Reporter,
    into: dict[str, Tensor] | None = None,
    bases: Iterator[LayerBases] | None = None,
    earlier: BasesRecord | None = None,
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
        earlier: The search for these bases, for the report.
        search: The reported steps of a refinement, and finished stages of an interrupted search.
        scratch: Folder for the changed weights of a model that is read from its files, layer by layer.

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
    dense_residuals = layer_energies(view, reporter) if earlier is None else earlier.dense_residuals
    folded = foldable(view, choice_under(spec.fold_norms, loaded.source.quantization))
    residuals: list[LayerRecord] = []

    def keep_in_file(module: nn.Module, name: str) -> None:
        if scratch is not None and view.mapped is not None:
            view.mapped.move(module, scratch / f"{name}.safetensors")
            view.mapped.give_back(module)

    def finish(layer: LayerView) -> None:
        alone = replace(view, layers=(layer,))
        residuals.extend(off_diagonal_energies(alone))
        fold_norms(alone, folded)
        keep_in_file(layer.module, f"layer-{layer.index}")

    start = pausable_clock.now()
    if spec.turns:
        if bases is None and spec.matrices:
            bases = read_bases(view, spec, Path(spec.matrices).expanduser())
        elif bases is None:
            tokens = read_tokens(spec.text, loaded.tokenizer) if spec.reads_text else None
            bases = choose_bases(view, spec, tokens, reporter, search)
        if view.centred:
            bases = preserve_mean_of_layers(bases)
        apply_bases(view, bases if into is None else copy_bases(bases, spec, into), reporter, finish)
        keep_in_file(view.embedding, "embedding")
        keep_in_file(view.head, "head")
    else:
        for layer in view.layers:
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
        residuals=tuple(residuals),
        shortcut_parameters=shortcut_parameters(loaded.model),
        seconds=seconds + (search.earlier_seconds if earlier is None else earlier.seconds),
        dense_residuals=dense_residuals,
        refinement=tuple(search.steps) if earlier is None else earlier.refinement,
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


SHARD = "1GB"
"""Largest file of weights: each is in memory as a whole while it is written."""
_README = """\
# A rotated model with residual shortcuts

Rotation: {label}. Made from {location}.

This model needs the matrices in `{file}`, which WINA Workbench attaches when it opens the folder.
**Other loaders ignore them, and what they load is then wrong.** Export with a `global` rotation for a
folder that any loader can use.

`{bases}`, where it is there, holds the orthogonal matrices themselves: give that file as the
rotation's matrices to rotate the original model in the same way again.
"""


def save_rotated(loaded: LoadedModel, folder: Path, matrices: Path | None = None) -> None:
    """Write a rotated model, its tokenizer and its rotation to a new folder atomically.

    Without shortcuts, any loader of the Hugging Face format reads the rotated model; with them, only `load_model` does,
    and a README.md in the folder says so. `matrices`, a file of the bases, is copied as MATRICES_FILE for replay on the
    original model. Raises WinaError if the model is not rotated, the folder is in use, or the disk refuses.
    """
    if loaded.rotation is None or loaded.rotation_report is None:
        raise WinaError("This model has not been rotated; rotate it before exporting it.")
    with new_folder(folder, "rotated model") as partial:
        _write(loaded, partial, None if matrices is None else MATRICES_FILE)
        if matrices is not None:
            shutil.copyfile(matrices, partial / MATRICES_FILE)


@contextmanager
def new_folder(folder: Path, content: str) -> Iterator[Path]:
    """Yield a folder that becomes `folder` at the end of the block, or else is removed.

    Raises WinaError if `folder` is in use or the disk refuses.
    """
    check_new_folder(folder)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        yield partial
        for file in partial.iterdir():  # safetensors makes its files readable for the user alone, against the umask
            shutil.copymode(partial / "config.json", file)
        partial.replace(folder)
    except (OSError, SafetensorError) as error:
        raise WinaError(
            f"The {content} could not be written to {folder} ({error}); free some space or choose another folder."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def giving_back(mapped: MappedWeights | None) -> Iterator[None]:
    """Give back the memory of each shard's weights once transformers has written it; converted ones are in files."""
    if mapped is None:
        yield
        return
    write = modeling_utils.safe_save_file

    def save(tensors: dict[str, Tensor], *args: Any, **kwargs: Any) -> None:
        write(tensors, *args, **kwargs)
        mapped.give_back_copies(tensors.values())
        give_back_converted(tensors.values())

    # transformers looks the function up in its module for each shard.
    with attributes(modeling_utils, safe_save_file=save), converted_in_files(mapped.give_back_copies):
        yield


def _write(loaded: LoadedModel, folder: Path, bases: str | None) -> None:
    assert loaded.rotation is not None
    assert loaded.rotation_report is not None
    with giving_back(loaded.view.mapped):
        state = {name: tensor for name, tensor in loaded.model.state_dict().items() if not is_shortcut(name)}
        loaded.model.save_pretrained(folder, state_dict=state, max_shard_size=SHARD)
    loaded.tokenizer.save_pretrained(folder)
    if norms := all_folded_norms(loaded.view):
        save_file(norms, folder / NORMS_FILE)
    matrices = {name: matrix.contiguous() for name, matrix in shortcuts(loaded.view).items()}
    if matrices:
        save_file(matrices, folder / SHORTCUTS_FILE)
        text = _README.format(
            label=loaded.rotation.label, location=loaded.source.location, file=SHORTCUTS_FILE, bases=MATRICES_FILE
        )
        (folder / "README.md").write_text(text, encoding="utf-8")
    content = RotationFile(
        rotation=loaded.rotation, report=loaded.rotation_report, shortcuts=tuple(matrices), matrices=bases
    )
    (folder / ROTATION_FILE).write_text(content.model_dump_json(indent=2), encoding="utf-8")
