"""What an engine keeps between jobs: the last few models, rotated or not; bases, calibrations and plans on disk."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
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
from wina_core.errors import WinaError, explain
from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically
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
    Selection,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan, UniformSparsity

CAPACITY = 2
"""Models held at once: enough to go back and forth between dense and rotated, and no more than twice the memory."""


BASES_VERSION = "1"
"""Of the way bases are found: raised whenever it would find others, so that no old ones are taken from the cache."""
CALIBRATION_VERSION = "3"
"""Of what a calibration measures, and raised like it."""
CORRECTION_VERSION = "2"
"""Of the way calibrated cuts are corrected, and raised like it."""


class Session:
    """Least recently used models by the hash of (source, rotation)."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._models: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()

    def prepare(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
        """The model, loaded, rotated and quantized unless it still is.

        A rotated model is always made from a fresh load, since rotation is in place; its bases are kept on disk, since
        they can take minutes to find. Raises WinaError when the files are no longer those that `source.fingerprint`
        names, and what loading, rotating and quantizing raise.
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
        """Return what `attach` needs for a run beside method and plan: the method's calibration, and where its cuts are
        read; None each where there is no need. `spec` is given where the method needs a calibration."""
        if not method.needs_calibration:
            return None, None
        assert spec is not None  # the specs of runs see to it
        calibration, record = self.calibration(loaded, rotation, method, spec, reporter, plan)
        if method.selection == "topk" or spec.thresholds == "dense":
            return calibration, None
        table = resolve_plan(plan, loaded.view.layout, method)
        identity = table.model_dump_json(exclude={"origin"})
        parts = {
            "calibration": record.key,
            "method": method.content_hash(),
            "plan": identity,
            "steps": CORRECTION_VERSION,
        }
        file = cache_folder() / "thresholds" / f"{_digest(parts)}.json"
        corrected = _cached_correction(file, table, reporter)
        if corrected is None:
            tokens = read_tokens(spec.text, loaded.tokenizer)
            with cancellable(loaded.model, reporter):
                corrected = correct_targets(loaded, method, table, calibration, tokens, reporter)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, corrected.model_dump_json().encode())
            except (OSError, WinaError) as error:
                reporter.log("warning", f"The corrected thresholds are not kept for later. {error}")
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
        """The method's thresholds and error curves on this model, read from the cache or measured and kept there; for a
        method whose scores depend on a plan's shares, those of `plan`."""
        shares = plan if isinstance(plan, SparsityPlan) and plan.rho is not None else None
        shares = shares if get_method(method).scores_by_shares else None
        key = calibration_key(loaded, rotation, method, spec, shares)
        file = cache_folder() / "calibrations" / f"{key}.safetensors"
        start = pausable_clock.now()
        calibration = _cached(file, reporter)
        if calibration is None:
            with cancellable(loaded.model, reporter):
                calibration = calibrate(loaded, method, spec, reporter, shares)
            _keep(calibration, file, reporter)
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
        """The table that an allocator finds on this model, read from the cache or searched and kept there.

        A search that ended early goes on from its last finished step. `spec` is for methods that need a calibration
        as they are searched, by default the usual one; the tables of others do not depend on it.
        """
        method = searched(method, plan.allocator)
        spec = spec or CalibrationSpec() if method.needs_calibration else None
        common = _searched_on(loaded, rotation, method, plan.allocator.text, spec)
        key = _digest({**common, "budget": repr(plan.sparsity), "allocator": plan.allocator.content_hash()})
        folder = cache_folder() / "allocations"
        file = folder / f"{key}.json"
        curves = folder / f"{_digest(common)}.curves"
        record = _cached_allocation(file, key, reporter)
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
        """Let go of all models, to have their memory back."""
        self._models.clear()


def unchanged(source: ModelSource) -> ModelSource:
    """The source with the fingerprint of its files; WinaError when they are no longer those that it names."""
    current = resolve(source)
    if source.fingerprint and current.fingerprint != source.fingerprint:
        raise WinaError(
            f"The files of the model {source.location} have changed since this was set up; "
            "open the model again to work with the new ones."
        )
    return current


def _rotate(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> None:
    """Rotate by the bases in the cache; where there are none, or none that can be read, find them and keep them."""
    file = bases_file(loaded, rotation)
    known = None
    if file.is_file():
        try:
            known = given_bases(loaded.view, rotation, file, file.stem)
        except WinaError as error:
            reporter.log("warning", f"Finding again the bases that the cache should hold: {error}")
    if known is not None:
        rotate(loaded, rotation, reporter, bases=known)
        return
    found: dict[str, Tensor] = {}
    rotate(loaded, rotation, reporter, into=found)
    try:
        save_matrices(found, file, file.stem)
    except WinaError as error:
        reporter.log("warning", f"The bases are not kept for later. {error}")


def bases_file(loaded: LoadedModel, rotation: RotationSpec) -> Path:
    """Where the bases are kept: named by the very weights and text, the rotation, and how bases are found.

    They are found before quantizing, so models that differ in nothing else share them.
    """
    parts = {
        "model": _identity(replace(loaded, source=loaded.source.model_copy(update={"quantization": "none"}))),
        "rotation": rotation.content_hash(),
        "text": _text_digest(rotation.text),
        "search": BASES_VERSION,
    }
    if takes_whole(loaded.view, rotation):  # which older versions did not
        parts["fused"] = "whole"
    return cache_folder() / "rotations" / f"{_digest(parts)}.safetensors"


def calibration_key(
    loaded: LoadedModel,
    rotation: RotationSpec,
    method: MethodSpec,
    spec: CalibrationSpec,
    shares: SparsityPlan | None = None,
) -> str:
    """Hash over all that a calibration depends on: the very weights and text, the rotation, the method's score, and how
    bases are found and calibrations measured.

    Top-k and threshold runs of a method share its calibration, unless what it corrects by depends on the selection.
    """
    parts = {
        "model": _identity(loaded),
        "rotation": rotation.content_hash(),
        "bases": BASES_VERSION,
        "score": method.model_copy(update={"selection": _calibrated_selection(method)}).content_hash(),
        "spec": spec.measured.content_hash(),
        "text": _text_digest(spec.text),
        "measurement": CALIBRATION_VERSION,
    }
    return _digest(parts if shares is None else parts | {"shares": json.dumps(shares.rho)})


def _searched_on(
    loaded: LoadedModel, rotation: RotationSpec, method: MethodSpec, text: TextSpec, spec: CalibrationSpec | None
) -> dict[str, str]:
    """All that an allocation depends on beside the budget and the allocator."""
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
    return hashlib.sha256(text_file(text.source).read_bytes()).hexdigest()


def _digest(parts: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _calibrated_selection(method: MethodSpec) -> Selection:
    shared = method.selection == "threshold" and method.correction == "none"
    return "topk" if shared else method.selection


def _cached(file: Path, reporter: Reporter) -> Calibration | None:
    """The calibration in a file of the cache; one that cannot be read is as good as none."""
    if not file.is_file():
        return None
    try:
        return Calibration.load(file)
    except WinaError as error:
        reporter.log("warning", f"Measuring again what the cache should hold: {error}")
        return None


def _cached_correction(file: Path, table: SparsityPlan, reporter: Reporter) -> SparsityPlan | None:
    """Return where corrected cuts are read, from a file of the cache; None where it is missing or damaged."""
    if not file.is_file():
        return None
    try:
        return SparsityPlan.model_validate_json(file.read_bytes()).for_layout(table.layout)
    except (OSError, ValidationError, WinaError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        reporter.log("warning", f"The thresholds are corrected again, since {file} cannot be read: {reason}")
        return None


def _keep(calibration: Calibration, file: Path, reporter: Reporter) -> None:
    """Write a calibration to the cache; a full disk costs no more than measuring it again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        calibration.save(file)
    except OSError as error:
        reporter.log("warning", f"The calibration is not kept for later, {file} cannot be written: {error}.")


def _cached_allocation(file: Path, key: str, reporter: Reporter) -> AllocationRecord | None:
    """The allocation in a file of the cache; one that cannot be read, or has another key, is as good as none."""
    if not file.is_file():
        return None
    try:
        record = AllocationRecord.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else f"{error.strerror}."
        reporter.log("warning", f"Searching again for what the cache should hold, {file} cannot be read: {reason}")
        return None
    if record.key != key:
        reporter.log("warning", f"Searching again for what the cache should hold, {file} is of another search.")
        return None
    return record


def _keep_allocation(record: AllocationRecord, file: Path, state: Path, reporter: Reporter) -> None:
    """Write an allocation to the cache, and only then remove what its search had written on the way: after a full disk
    that is all there is to go on from."""
    try:
        write_atomically(file, record.model_dump_json().encode())
    except WinaError as error:
        reporter.log("warning", f"The allocation is not kept for later. {error}")
        return
    try:
        state.unlink(missing_ok=True)
    except OSError as error:
        reporter.log("warning", f"{state} is needed no more but cannot be removed ({error.strerror}).")
