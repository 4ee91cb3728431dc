"""The files of what jobs prepare, each named by a hash of all that it depends on: bases, calibrations, allocations,
references.

Naming one reads the fingerprints of a model's files and texts: call nothing here on a thread that must answer. `model`
is always the `identity` of a model, unquantized where a product serves all its quantizations.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder, data_folder
from wina_core.files.user_file import open_file
from wina_core.files.version import __version__
from wina_core.model_info.resolve import adds_bos, fingerprint, text_file
from wina_core.model_info.sizes import suited
from wina_core.model_info.text_files import split_range
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    JointSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.allocations import ALLOCATOR_PLUGINS
from wina_core.specs.gates import FEWEST
from wina_core.specs.methods import METHOD_PLUGINS
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import QUANTIZER_PLUGINS
from wina_core.specs.rotations import AUTO_SPARSITY

# Versions of computations: raise one whenever its results change, so that no cached one is taken for a new one.
BASES_VERSION = "1"
DIVERGENCE_VERSION = "2"
"""Version of what a search by the objective kl does beside that for bases."""
CHOICE_VERSION = "4"
"""Version of the candidates of `auto` and of the choice between them."""
COMPARISON_VERSION = "3"
SPECTRA_VERSION = "2"
QUANTIZATION_VERSION = "1"
CALIBRATION_VERSION = "4"
CORRECTION_VERSION = "3"
TUNING_VERSION = "3"
ALLOCATION_VERSION = "4, levels (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)"
"""Version of allocation, with the levels of its curves."""
JOINT_VERSION = "3"
REFERENCE_VERSION = "1"

STAGES_SUFFIX = ".search"
"""Suffix of the folder of an interrupted computation's stages, beside the place of its result."""
ABANDONED_SECONDS = 30 * 86_400.0
"""Time without a new stage after which an interrupted search is removed."""
_UNFINISHED_SECONDS = 86_400.0
"""The same of rotated weights that were being written."""


def digest(key: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def _file(folder: str, suffix: str, key: dict[str, str]) -> Path:
    return cache_folder() / folder / f"{digest(key)}{suffix}"


def identity(source: ModelSource, folder: Path | None) -> str:
    """Return a hash of a model's files in `folder` and the way to load them."""
    # Even for a hub id, which can come to mean other files.
    if folder is not None:
        changes = {"fingerprint": fingerprint(folder), "bos": adds_bos(folder)}
        source = suited(source, folder).model_copy(update=changes)
    return source.content_hash()


def text_digest(source: str) -> str:
    """Return a hash of the content of a text's file, and the range of its rows if it has one."""
    with open_file(text_file(source), "text") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() + split_range(source)[1]


# ---- parts of keys ---------------------------------------------------------------------------------------------------


def _search_version(rotation: RotationSpec) -> str:
    return BASES_VERSION if rotation.objective != "kl" else f"{BASES_VERSION}, kl {DIVERGENCE_VERSION}"


def _rotated(model: str, rotation: RotationSpec) -> dict[str, str]:
    return {"model": model, "rotation": rotation.content_hash(), "bases": _search_version(rotation)}


def _packages(*versions: str) -> dict[str, str]:
    """Return the packages of methods, allocators and quantizers that are not built in."""
    # No entry without packages, so that all other files keep their names.
    packages = ", ".join(filter(None, versions))
    return {"packages": packages} if packages else {}


def _floor(method: MethodSpec) -> dict[str, str]:
    """Return the share of inputs that `mixed` keeps of every token at least."""
    return {"fewest": repr(FEWEST)} if method.selection == "mixed" else {}


def _targets(method: MethodSpec, plan: SparsityPlan) -> dict[str, str]:
    content = plan.model_dump_json(exclude={"provenance"})
    return {"method": method.content_hash(), "plan": content, **_floor(method)}


# ---- products --------------------------------------------------------------------------------------------------------


def bases_file(model: str, rotation: RotationSpec, *, whole: bool) -> Path:
    """Return the file of a rotation's bases for the unquantized `model`, whichever norms are folded later.

    `whole`: a basis of k or gate alone is that of a whole fused matrix.
    """
    rotation = rotation.model_copy(update={"fold_norms": "none", "sparsity": AUTO_SPARSITY})
    key = {
        "model": model,
        "rotation": rotation.content_hash(),
        "text": text_digest(rotation.text.source),
        "search": _search_version(rotation),
    }
    # Added only where it applies, so that all other bases keep the names of their files.
    return _file("rotations", ".safetensors", key | ({"fused": "whole"} if whole else {}))


def choice_file(model: str, rotation: RotationSpec) -> Path:
    key = {
        "model": model,
        "rotation": rotation.content_hash(),
        "text": text_digest(rotation.text.source),
        "search": _search_version(rotation),
        "candidates": CHOICE_VERSION if rotation.is_auto else "",
        "measurement": COMPARISON_VERSION,
    }
    return _file("rotations", ".json", key)


def spectra_file(model: str, text: TextSpec) -> Path:
    """Return the file of the energy spectra of the inputs of the unquantized `model` on a text."""
    content = {"text": text.content_hash(), "content": text_digest(text.source), "measurement": SPECTRA_VERSION}
    return _file("rotations", ".spectra.json", {"model": model, **content})


def rotated_folder(model: str, rotation: RotationSpec, folded: Sequence[str]) -> Path:
    """Return the folder of the rotated weights of a model that memory does not hold, norms folded."""
    key = {"text": text_digest(rotation.text.source), "folded": ", ".join(folded)}
    return _file("rotated", "", _rotated(model, rotation) | key)


def changed_folder(rotated: Path) -> Path:
    """Return the hidden folder of changed weights beside a rotated folder that is written from them."""
    return rotated.with_name(f".changed-{__version__}-{rotated.name}")


def passes_folder(model: str, rotation: RotationSpec, quantization: QuantizationSpec | str) -> Path:
    """Return the folder of interrupted passes of texts through a rotated and quantized model."""
    read = quantization.text.source if isinstance(quantization, QuantizationSpec) and quantization.reads_text else ""
    key = {
        "text": text_digest(rotation.text.source),
        "quantization": text_digest(read) if read else "",
        "quantizers": QUANTIZATION_VERSION,
        "calibration": CALIBRATION_VERSION,
        "program": __version__,
    }
    return _file("passes", STAGES_SUFFIX, _rotated(model, rotation) | key)


def quantized_file(model: str, rotation: RotationSpec, spec: QuantizationSpec) -> Path:
    """Return the file of the quantized weights of the unquantized `model` after a rotation."""
    key = {
        "spec": spec.content_hash(),
        "text": text_digest(spec.text.source),
        "quantizers": QUANTIZATION_VERSION,
        **_packages(QUANTIZER_PLUGINS.version(spec.quantizer)),
    }
    return _file("quantized", ".safetensors", _rotated(model, rotation) | key)


def calibration_key(
    model: str,
    rotation: RotationSpec,
    method: MethodSpec,
    spec: CalibrationSpec,
    shares: SparsityPlan | None = None,
) -> str:
    """Return a hash of all that a calibration depends on: weights, text, rotation, scores, and versions.

    Top-k, threshold and mixed runs of a method share its calibration, unless its correction depends on the selection.
    Tuned biases are no part of it.
    """
    method = method.untuned
    shared = method.selection in ("threshold", "mixed") and method.correction == "none"
    key = {
        "score": (method.model_copy(update={"selection": "topk"}) if shared else method).content_hash(),
        "spec": spec.measured.content_hash(),
        "text": text_digest(spec.text.source),
        "measurement": CALIBRATION_VERSION,
        **({} if shared else _floor(method)),
        **({} if shares is None else {"shares": json.dumps(shares.rho)}),
        **_packages(METHOD_PLUGINS.version(method.name)),
    }
    return digest(_rotated(model, rotation) | key)


def calibration_file(key: str) -> Path:
    return cache_folder() / "calibrations" / f"{key}.safetensors"


def tuned_file(
    model: str, rotation: RotationSpec, method: MethodSpec, plan: SparsityPlan, spec: CalibrationSpec
) -> Path:
    """Return the file of the biases that are tuned for a plan, with the calibration that they belong to."""
    key = {
        "calibration": calibration_key(model, rotation, method, spec, plan if plan.rho is not None else None),
        "thresholds": spec.thresholds,
        "steps": f"{TUNING_VERSION}, thresholds {CORRECTION_VERSION}",
    }
    return _file("tuned", ".safetensors", _targets(method, plan) | key)


def corrected_file(calibration: str, method: MethodSpec, plan: SparsityPlan) -> Path:
    """Return the file of a plan's corrected targets, for thresholds of the calibration with this key."""
    return _file(
        "thresholds", ".json", _targets(method, plan) | {"calibration": calibration, "steps": CORRECTION_VERSION}
    )


def reference_file(source: ModelSource, folder: Path, text: TextSpec) -> Path:
    """Return the file of a text's log-probabilities by the original model in `folder`, computed in the dtype of
    `source` (`Session.reference`).

    All rotations, bits and devices share it, and all names of the folder and of the text.
    """
    key = {
        "model": fingerprint(folder),
        "dtype": suited(source, folder).dtype,
        "text": text_digest(text.source),
        "rows": f"{text.tokens} of {text.sequence}",
        "measurement": REFERENCE_VERSION,
    }
    # Added only where it applies, so that references of models without BOS keep the names of their files.
    return _file("references", ".safetensors", key | ({"bos": "first"} if adds_bos(folder) else {}))


def searched(method: MethodSpec, allocator: AllocatorSpec) -> MethodSpec:
    """Return the method as searched, whichever selection is used later: top k, or as released the dense thresholds.

    The allocator `marginal` searches the selection `mixed` as it is, with the dense thresholds: those of gate and up
    cost less than top k at the same sparsity, which changes the balance.
    """
    method = method.untuned
    if allocator.name == "marginal" and method.selection == "mixed":
        return method
    return method.model_copy(update={"selection": "threshold" if allocator.is_released else "topk"})


def allocation_files(
    model: str, rotation: RotationSpec, method: MethodSpec, plan: AllocatedSparsity, spec: CalibrationSpec | None
) -> tuple[Path, Path]:
    """Return the file of an allocation, and that of its curves, which other budgets share.

    `method` is the searched one, `spec` that of its calibration if it needs one.
    """
    text = plan.allocator.text
    common = _rotated(model, rotation) | {
        "method": method.content_hash(),
        "text": text.content_hash(),
        "content": text_digest(text.source),
        "calibration": "" if spec is None else calibration_key(model, rotation, method, spec),
        "search": ALLOCATION_VERSION,
        **_floor(method),
        **_packages(METHOD_PLUGINS.version(method.name), ALLOCATOR_PLUGINS.version(plan.allocator.name)),
    }
    budget = {"budget": repr(plan.sparsity), "allocator": plan.allocator.content_hash()}
    return _file("allocations", ".json", common | budget), _file("allocations", ".curves", common)


def joint_files(model: str, rotation: RotationSpec, method: MethodSpec, spec: JointSpec) -> tuple[Path, Path]:
    """Return the file of a joint allocation, and that of its measurements, which other budgets share."""
    common = _rotated(model, rotation) | {
        "method": method.content_hash(),
        "spec": spec.measured.content_hash(),
        "content": text_digest(spec.text.source),
        "moments": text_digest(spec.quantization.text.source) if spec.quantization.reads_text else "",
        "search": JOINT_VERSION,
        **_packages(METHOD_PLUGINS.version(method.name), QUANTIZER_PLUGINS.version(spec.quantization.quantizer)),
    }
    budgets = {"budgets": spec.content_hash()}
    return _file("allocations", ".json", common | budgets), _file("allocations", ".options", common)


# ---- interrupted searches, and durations -----------------------------------------------------------------------------


def has_stages(file: Path) -> bool:
    """Return whether an interrupted search for the product of a file has finished stages."""
    stages = file.with_suffix(STAGES_SUFFIX)
    return any(stages.glob("*.safetensors")) if stages.is_dir() else stages.exists()


def remove_abandoned(folder: Path) -> None:
    """Remove what interrupted searches kept in a folder of products, if none has continued for a month."""
    _remove_old(folder.glob(f"*{STAGES_SUFFIX}"), ABANDONED_SECONDS)


def remove_unfinished(folder: Path, current: Path) -> None:
    """Remove all hidden folders of rotated weights but one that a killed engine left more than a day ago."""
    _remove_old((entry for entry in folder.glob(".*") if entry != current), _UNFINISHED_SECONDS)


def _remove_old(paths: Iterable[Path], seconds: float) -> None:
    """Remove files and folders that nobody has written to for so long."""
    for path in paths:
        with suppress(OSError):  # the next call tries again
            if time.time() - path.stat().st_mtime < seconds:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def remember_seconds(key: str, seconds: float) -> None:
    """Keep the duration of computing a product, which outlives its file; nothing where it cannot be written."""
    with suppress(OSError, WinaError):
        folder = data_folder() / "durations"
        folder.mkdir(parents=True, exist_ok=True)
        # Renamed when complete: another process may read it at any time.
        temporary = folder / f".{key}.{time.time_ns()}"
        temporary.write_text(f"{seconds:.3f}")
        temporary.replace(folder / key)


def remembered_seconds(key: str) -> float | None:
    """Return the duration of an earlier computation; None if unknown."""
    try:
        return float((data_folder() / "durations" / key).read_text())
    except (OSError, ValueError, WinaError):
        return None
