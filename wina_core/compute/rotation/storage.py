"""Export of a rotated model as a Hugging Face folder."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from transformers import modeling_utils

from wina_core.compute.attributes import attributes
from wina_core.compute.models.converted import converted_in_files, give_back_converted
from wina_core.compute.models.folded_norms import all_folded_norms
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.rotated_folder import NORMS_FILE, ROTATION_FILE, SHORTCUTS_FILE, RotationFile
from wina_core.compute.models.shortcuts import is_shortcut, shortcuts
from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.specs import MATRICES_FILE

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
def new_folder(folder: Path, what: str) -> Iterator[Path]:
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
            f"The {what} could not be written to {folder} ({error}); free some space or choose another folder."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def giving_back(mapped: MappedWeights | None) -> Iterator[None]:
    """Give the memory of each file's weights back once transformers has written it; what it converts is in files."""
    if mapped is None:
        yield
        return
    write = modeling_utils.safe_save_file

    def save(tensors: dict[str, Tensor], *given: Any, **named: Any) -> None:
        write(tensors, *given, **named)
        mapped.give_back_copies(tensors.values())
        give_back_converted(tensors.values())

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
