"""State of an engine between jobs: the last few models, rotated or not, and results cached on disk."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.allocation import VERSION as ALLOCATION_VERSION
from wina_core.compute.allocation import allocate, searched, stored_curves
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.cancellation import cancellable
from wina_core.compute.gating.correction import correct_targets
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import rotate
from wina_core.compute.rotation.choose import takes_whole
from wina_core.compute.rotation.matrices import given_bases, save_matrices
from wina_core.compute.session.cache import digest, read_cached, write_cached
from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import open_file, read_file
from wina_core.masks.targets import resolve_plan
from wina_core.methods import get_method
from wina_core.records import AllocationRecord, CalibrationRecord
from wina_core.sources.resolve import fingerprint, resolve, text_file
from wina_core.specs import (
    AllocatedSparsity,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan, UniformSparsity

_CORRECTION = "correction of thresholds"
CAPACITY = 2
"""Models held at once: enough to switch between dense and rotated."""
BASES_VERSION = "1"
"""Version of the search for bases; raise it whenever it would find others."""
CALIBRATION_VERSION = "3"
"""Version of calibration; raise it whenever results change."""
CORRECTION_VERSION = "2"
"""Version of the correction of thresholds, likewise."""


class Session:
    """Least recently used models by the hash of (source, rotation)."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._models: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()

    def prepare(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
        """Return the model, loaded, rotated and quantized unless it still is.

        A rotated model starts from a fresh load, since rotation is in place; its bases are cached on disk. Raises
        WinaError if the files differ from `source.fingerprint`, and as loading, rotating and quantizing do.
        """
        current = unchanged(source)
        key = (current.content_hash(), rotation.content_hash())
        if key not in self._models:
            while len(self._models) >= self._capacity:  # before loading, so that the peak stays within the capacity
                self._models.popitem(last=False)
            loaded = load_model(current, reporter)
            if not rotation.is_identity:
                with cancellable(loaded.model, reporter):
                    _rotate(loaded, rotation, reporter)
            if current.quantization != "none":
                with cancellable(loaded.model, reporter):
                    quantize(loaded, current.quantization, reporter)
            self._models[key] = loaded
        self._models.move_to_end(key)
        return self._models[key]

    def gating(
        self,
        loaded: LoadedModel,
        rotation: RotationSpec,
        method: MethodSpec,
        plan: UniformSparsity | SparsityPlan,
        spec: CalibrationSpec | None,
        reporter: Reporter,
    ) -> tuple[Calibration | None, SparsityPlan | None]:
        """Return the calibration and corrected targets that `attach` needs for a method and plan, None each if not
        needed.

        `spec` is required if the method needs a calibration.
        """
        if not method.needs_calibration:
            return None, None
        assert spec is not None  # the specs of runs see to it
        calibration, record = self.calibration(loaded, rotation, method, spec, reporter, plan)
        if method.selection == "topk" or spec.thresholds == "dense":
            return calibration, None
        table = resolve_plan(plan, loaded.view.layout, method)
        parts = {
            "calibration": record.key,
            "method": method.content_hash(),
            "plan": table.model_dump_json(exclude={"provenance"}),
            "steps": CORRECTION_VERSION,
        }
        file = cache_folder() / "thresholds" / f"{digest(parts)}.json"

        def read(path: Path) -> SparsityPlan:
            return SparsityPlan.model_validate_json(read_file(path, "cache")).for_layout(table.layout)

        corrected = read_cached(file, _CORRECTION, read, reporter)
        if corrected is None:
            tokens = read_tokens(spec.text, loaded.tokenizer)
            with cancellable(loaded.model, reporter):
                corrected = correct_targets(loaded, method, table, calibration, tokens, reporter)
            content = corrected.model_dump_json().encode()
            write_cached(file, _CORRECTION, lambda path: write_atomically(path, content), reporter)
        return calibration, corrected

    def calibration(
        self,
        loaded: LoadedModel,
        rotation: RotationSpec,
        method: MethodSpec,
        spec: CalibrationSpec,
        reporter: Reporter,
        plan: UniformSparsity | SparsityPlan | None = None,
    ) -> tuple[Calibration, CalibrationRecord]:
        """Return the method's calibration on this model, from the cache or measured; for a method whose scores depend
        on a plan's shares, those of `plan`."""
        shares = plan if isinstance(plan, SparsityPlan) and plan.rho is not None else None
        shares = shares if get_method(method).scores_by_shares else None
        key = calibration_key(loaded, rotation, method, spec, shares)
        file = cache_folder() / "calibrations" / f"{key}.safetensors"
        start = pausable_clock.now()
        calibration = read_cached(file, "calibration", Calibration.load, reporter)
        if calibration is None:
            with cancellable(loaded.model, reporter):
                calibration = calibrate(loaded, method, spec, reporter, shares)
            write_cached(file, "calibration", calibration.save, reporter)
        return calibration, calibration.record(key, pausable_clock.now() - start, method.selection)

    def allocation(
        self,
        loaded: LoadedModel,
        rotation: RotationSpec,
        method: MethodSpec,
        plan: AllocatedSparsity,
        spec: CalibrationSpec | None,
        reporter: Reporter,
    ) -> tuple[SparsityPlan, AllocationRecord]:
        """Return the table that an allocator finds on this model, from the cache or searched.

        An interrupted search resumes from its last finished step. `spec` is for methods that need a calibration in the
        search, by default the usual one.
        """
        method = searched(method, plan.allocator)
        spec = spec or CalibrationSpec() if method.needs_calibration else None
        common = _searched_on(loaded, rotation, method, plan.allocator.text, spec)
        key = digest({**common, "budget": repr(plan.sparsity), "allocator": plan.allocator.content_hash()})
        folder = cache_folder() / "allocations"
        file = folder / f"{key}.json"
        curves = folder / f"{digest(common)}.curves"
        record = read_cached(file, "allocation", lambda path: _read_allocation(path, key), reporter)
        if record is not None and not record.curves:  # kept before they were part of it
            known = stored_curves(loaded.view.layout, method, curves, reporter)
            record = record.model_copy(update={"curves": known})
        if record is None:
            calibration = None
            if spec is not None:
                calibration, _ = self.calibration(loaded, rotation, method, spec, reporter)
            state: Path | None = folder / f"{key}.search"
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                reporter.log("warning", f"Nothing of this search is kept, {folder} cannot be made ({error.strerror}).")
                state = None
            with cancellable(loaded.model, reporter):
                record = allocate(loaded, method, plan, key, reporter, calibration, state, curves if state else None)
            if state is not None:
                _keep_allocation(record, file, state, reporter)
        return record.plan, record

    def clear(self) -> None:
        """Free all models."""
        self._models.clear()


def unchanged(source: ModelSource) -> ModelSource:
    """Return the source with the fingerprint of its files; raise WinaError if they have changed."""
    current = resolve(source)
    if source.fingerprint and current.fingerprint != source.fingerprint:
        raise WinaError(
            f"The files of the model {source.location} have changed since this was set up; "
            "open the model again to work with the new ones."
        )
    return current


def _rotate(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> None:
    file = bases_file(loaded, rotation)
    known = read_cached(file, "basis", lambda path: given_bases(loaded.view, rotation, path, path.stem), reporter)
    if known is not None:
        rotate(loaded, rotation, reporter, bases=known)
        return
    found: dict[str, Tensor] = {}
    rotate(loaded, rotation, reporter, into=found)
    write_cached(file, "basis", lambda path: save_matrices(found, path, path.stem), reporter)


def bases_file(loaded: LoadedModel, rotation: RotationSpec) -> Path:
    """Return the file of the bases, named by the weights, the text, the rotation and the version of the search.

    They are found before quantizing, so models that differ only in that share them.
    """
    parts = {
        "model": _identity(replace(loaded, source=loaded.source.model_copy(update={"quantization": "none"}))),
        "rotation": rotation.content_hash(),
        "text": _text_digest(rotation.text),
        "search": BASES_VERSION,
    }
    if takes_whole(loaded.view, rotation):  # which older versions did not
        parts["fused"] = "whole"
    return cache_folder() / "rotations" / f"{digest(parts)}.safetensors"


def calibration_key(
    loaded: LoadedModel,
    rotation: RotationSpec,
    method: MethodSpec,
    spec: CalibrationSpec,
    shares: SparsityPlan | None = None,
) -> str:
    """Return a hash of all that a calibration depends on: weights, text, rotation, scores, and versions.

    Top-k and threshold runs of a method share its calibration, unless its correction depends on the selection.
    """
    shared = method.selection == "threshold" and method.correction == "none"
    parts = {
        "model": _identity(loaded),
        "rotation": rotation.content_hash(),
        "bases": BASES_VERSION,
        "score": (method.model_copy(update={"selection": "topk"}) if shared else method).content_hash(),
        "spec": spec.measured.content_hash(),
        "text": _text_digest(spec.text),
        "measurement": CALIBRATION_VERSION,
    }
    return digest(parts if shares is None else parts | {"shares": json.dumps(shares.rho)})


def _searched_on(
    loaded: LoadedModel, rotation: RotationSpec, method: MethodSpec, text: TextSpec, spec: CalibrationSpec | None
) -> dict[str, str]:
    """Return all that an allocation depends on beside the budget and the allocator."""
    return {
        "model": _identity(loaded),
        "rotation": rotation.content_hash(),
        "bases": BASES_VERSION,
        "method": method.content_hash(),
        "text": text.content_hash(),
        "content": _text_digest(text),
        "calibration": "" if spec is None else calibration_key(loaded, rotation, method, spec),
        "search": ALLOCATION_VERSION,
    }


def _identity(loaded: LoadedModel) -> str:
    source = loaded.source
    if loaded.folder is not None:  # a hub id can come to mean other files
        source = source.model_copy(update={"fingerprint": fingerprint(loaded.folder)})
    return source.content_hash()


def _text_digest(text: TextSpec) -> str:
    with open_file(text_file(text.source), "text") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_allocation(file: Path, key: str) -> AllocationRecord:
    record = AllocationRecord.model_validate_json(read_file(file, "cache"))
    if record.key != key:
        raise WinaError("it holds another search.")
    return record


def _keep_allocation(record: AllocationRecord, file: Path, state: Path, reporter: Reporter) -> None:
    """Cache an allocation, and only then remove the state of its search, which resumes after a full disk."""
    content = record.model_dump_json().encode()
    if not write_cached(file, "allocation", lambda path: write_atomically(path, content), reporter):
        return
    try:
        state.unlink(missing_ok=True)
    except OSError as error:
        reporter.log("warning", f"{state} is needed no more but cannot be removed ({error.strerror}).")
