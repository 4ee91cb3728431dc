"""State of an engine between jobs: the last few models, rotated or not, and results cached on disk."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from wina_core.compute import pausable_clock
from wina_core.compute.allocation import allocate, allocate_in_planes, allocate_jointly, stored_curves
from wina_core.compute.allocation.cells import check_joint
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.evaluation.original import ReferenceFile
from wina_core.compute.gating.tuning import check_tuning, correct_fractions, tuned_biases_of, tuned_calibration
from wina_core.compute.hooks import cancellable
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.quantization.apply import QuantizedSites
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.auto_rotation import choose_rotation, measured_spectra, stored_choice
from wina_core.compute.session.cache import read_cached, rotated, stages_of, write_cached
from wina_core.compute.stages import Stages, alone
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.model_info import products
from wina_core.model_info.folding import choice_under
from wina_core.model_info.resolve import prepared_files, resolve
from wina_core.records import (
    AllocationRecord,
    CalibrationRecord,
    JointRecord,
    RotationChoice,
    RotationReport,
    SiteSpectrum,
)
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    CalibrationSpec,
    JointSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.methods import get_method
from wina_core.specs.plans import ResolvedPlan, SparsityPlan, UniformSparsity, resolve_plan

_CORRECTION = "correction of thresholds"
_TUNING = "tuned biases"
CAPACITY = 2
"""Models held at once: enough to switch between dense and rotated."""
_SPECTRA_TOKENS = 2048


class Session:
    """Least recently used models by the hash of (source, rotation)."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._models: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()
        self._choices: dict[tuple[str, str], RotationChoice] = {}
        """Comparisons of rotations, by the hash of (source, rotation)."""
        self.references: Mapping[Path, ReferenceFile] = {}
        """Open files of `session.reference`."""

    def choice(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> RotationChoice:
        """Return the comparison of a rotation with none, of `auto` that of its candidates, from the cache or measured
        on the unquantized model, which is dropped afterwards unless it was in memory before."""
        source = unchanged(source).unquantized
        key = (source.content_hash(), rotation.content_hash())
        if key not in self._choices:
            folder = prepared_files(source)
            choice = None
            if folder is not None:
                file = products.choice_file(products.identity(source, folder), rotation)
                choice = stored_choice(file, reporter)
            if choice is None:
                with self.borrowed(source, NO_ROTATION, reporter) as loaded:
                    file = products.choice_file(_identity(loaded), rotation)
                    with alone(file, "the rotation", reporter):
                        # Read again: another engine may have stored it while this one waited.
                        choice = stored_choice(file, reporter) or choose_rotation(loaded, rotation, file, reporter)
            self._choices[key] = choice
        return self._choices[key]

    def chosen(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> RotationSpec:
        """Return the rotation that `auto` chose for a model; any other rotation as it is."""
        return self.choice(source, rotation, reporter).rotation if rotation.is_auto else rotation

    def rotation_report(
        self, loaded: LoadedModel, rotation: RotationSpec, choice: RotationChoice | None
    ) -> RotationReport:
        """Return the report on a model that was prepared with a rotation, under the rotation's hash; without numbers of
        weights where `auto` has chosen none."""
        measured = loaded.rotation_report if choice is None or choice.chosen > 0 else None
        report = measured or RotationReport(
            rotation="", logits_deviation=0.0, residuals=(), shortcut_parameters=0, seconds=0.0
        )
        return report.model_copy(update={"rotation": rotation.content_hash(), "choice": choice})

    def spectra(self, source: ModelSource, text: TextSpec, reporter: Reporter) -> tuple[SiteSpectrum, ...]:
        """Return the energy spectra of the inputs of the unquantized model as it is, from the cache or measured."""
        read = text.model_copy(update={"tokens": min(text.tokens, _SPECTRA_TOKENS)})
        with self.borrowed(source.unquantized, NO_ROTATION, reporter) as loaded:
            return measured_spectra(loaded, read, reporter)

    @torch.inference_mode(mode=False)  # tensors made in it have no gradients later, which tuning needs
    def prepare(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
        """Return the model, loaded, rotated and quantized unless it still is.

        A rotated model starts from a fresh load, since rotation is in place; its bases are cached on disk. Raises
        WinaError if the files differ from `source.fingerprint`, and as loading, rotating and quantizing do.
        """
        rotation = self.chosen(source, rotation, reporter)
        current = unchanged(source)
        key = (current.content_hash(), rotation.content_hash())
        if key not in self._models:
            while len(self._models) >= self._capacity:  # before loading, so that the peak stays within the capacity
                self._models.popitem(last=False)
            loaded = load_model(current, reporter)
            if not rotation.is_identity:
                with cancellable(loaded.model, reporter):
                    loaded = rotated(loaded, rotation, reporter)
            if current.quantization != "none":
                with cancellable(loaded.model, reporter):
                    quantize(loaded, current.quantization, reporter, _weight_cache(loaded, rotation, reporter))
            self._models[key] = loaded
        self._models.move_to_end(key)
        return self._models[key]

    @contextmanager
    def borrowed(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> Iterator[LoadedModel]:
        """Prepare a model for the block alone; it is dropped afterwards, unless it was in memory before."""
        rotation = self.chosen(source, rotation, reporter)
        key = (unchanged(source).content_hash(), rotation.content_hash())
        was_loaded = key in self._models
        try:
            yield self.prepare(source, rotation, reporter)
        finally:
            if not was_loaded:
                self._models.pop(key, None)

    def gating(
        self,
        loaded: LoadedModel,
        rotation: RotationSpec,
        method: MethodSpec,
        plan: UniformSparsity | SparsityPlan,
        spec: CalibrationSpec | None,
        reporter: Reporter,
    ) -> tuple[Calibration | None, ResolvedPlan]:
        """Return the calibration and the resolved plan that `attach` needs for a method and plan; no calibration where
        the method needs none.

        `spec` is required if the method needs a calibration.
        """
        calibration, resolved = self._thresholds(loaded, rotation, method.untuned, plan, spec, reporter)
        if method.is_tuned:
            assert spec is not None  # the specs of runs see to it
            # Named by the chosen rotation, so that `auto` shares the files of the rotation that it chose.
            rotation = self.chosen(loaded.source, rotation, reporter)
            file = products.tuned_file(_identity(loaded), rotation, method, resolved.targets, spec)
            tuned = read_cached(file, _TUNING, partial(tuned_biases_of, loaded.view), reporter)
            if tuned is None:
                tokens, stages = read_tokens(spec.text, loaded.tokenizer), stages_of(file, reporter)
                with cancellable(loaded.model, reporter):
                    tuned = tuned_calibration(loaded, method, resolved, calibration, tokens, reporter, stages)
                if write_cached(file, _TUNING, tuned.save, reporter):
                    stages.discard()
            calibration = tuned
        return calibration, resolved

    def _thresholds(
        self,
        loaded: LoadedModel,
        rotation: RotationSpec,
        method: MethodSpec,
        plan: UniformSparsity | SparsityPlan,
        spec: CalibrationSpec | None,
        reporter: Reporter,
    ) -> tuple[Calibration | None, ResolvedPlan]:
        """Return the calibration and the resolved plan of a method without tuned biases."""
        resolved = resolve_plan(plan, loaded.view.layout, method)
        if not method.needs_calibration:
            return None, resolved
        assert spec is not None  # the specs of runs see to it
        calibration, record = self.calibration(loaded, rotation, method, spec, reporter, plan)
        if method.selection == "topk" or spec.thresholds == "dense":
            return calibration, resolved
        layout = resolved.targets.layout
        file = products.corrected_file(record.key, method, resolved.targets)

        def read(path: Path) -> ResolvedPlan:
            stored = SparsityPlan.model_validate_json(read_file(path, "cache")).for_layout(layout)
            return replace(resolved, fractions=stored.sparsity)

        corrected = read_cached(file, _CORRECTION, read, reporter)
        if corrected is None:
            tokens = read_tokens(spec.text, loaded.tokenizer)
            stages = stages_of(file, reporter)
            with cancellable(loaded.model, reporter):
                corrected = correct_fractions(loaded, method, resolved, calibration, tokens, reporter, stages)
            content = SparsityPlan(layout=layout, sparsity=corrected.fractions).model_dump_json().encode()
            if write_cached(file, _CORRECTION, lambda path: write_atomically(path, content), reporter):
                stages.discard()
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
        rotation = self.chosen(loaded.source, rotation, reporter)
        shares = plan if isinstance(plan, SparsityPlan) and plan.rho is not None else None
        shares = shares if get_method(method).scores_by_shares else None
        key = calibration_key(loaded, rotation, method, spec, shares)
        file = products.calibration_file(key)
        start = pausable_clock.now()
        calibration = read_cached(file, "calibration", Calibration.load, reporter)
        if calibration is None:
            with cancellable(loaded.model, reporter):
                calibration = calibrate(loaded, method, spec, reporter, shares)
            products.remember_seconds(key, pausable_clock.now() - start)
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
        if method.is_tuned:
            text = (spec or CalibrationSpec()).text
            check_tuning(loaded.view, text.tokens // text.sequence)
        rotation = self.chosen(loaded.source, rotation, reporter)
        method = products.searched(method, plan.allocator)
        spec = spec or CalibrationSpec() if method.needs_calibration else None
        file, curves = products.allocation_files(_identity(loaded), rotation, method, plan, spec)
        folder, key = file.parent, file.stem
        record = read_cached(file, "allocation", lambda path: _read_allocation(path, key), reporter)
        if record is not None and not record.curves:  # the record of an older version
            cell_curves = stored_curves(loaded.view.layout, method, curves, reporter)
            record = record.model_copy(update={"curves": cell_curves})
        if record is None:
            calibration = None
            if spec is not None:
                calibration, _ = self.calibration(loaded, rotation, method, spec, reporter)
            products.remove_abandoned(folder)
            state = file.with_suffix(products.STAGES_SUFFIX) if _is_made(folder, reporter) else None
            with cancellable(loaded.model, reporter):
                reporter.stage("allocation")
                record = allocate(loaded, method, plan, key, reporter, calibration, state, curves if state else None)
            products.remember_seconds(key, record.seconds)
            if state is not None:
                _keep_allocation(record, file, state, reporter)
        return record.plan, record

    def joint(
        self, source: ModelSource, rotation: RotationSpec, method: MethodSpec, spec: JointSpec, reporter: Reporter
    ) -> JointRecord:
        """Return the bits and target sparsities that a joint allocation finds for a model, from the cache or searched.

        The model's own quantization is left out. Its layers are held in every width at once. An interrupted measurement
        resumes.
        """
        source = source.unquantized
        rotation = self.chosen(source, rotation, reporter)
        method = method.untuned.model_copy(update={"selection": "topk"})
        chosen = [spec.in_planes_held] if spec.in_planes else [spec.quantized(bits) for bits in spec.choices]
        folding = {choice_under(rotation.fold_norms, quantization) for quantization in chosen}
        # Layers of all widths must read inputs of one rotation.
        if "none" in folding:
            rotation = rotation.model_copy(update={"fold_norms": "none"})
        loaded = self.prepare(source, rotation, reporter)
        check_joint(loaded.view)
        file, options = products.joint_files(_identity(loaded), rotation, method, spec)

        def read(path: Path) -> JointRecord:
            return JointRecord.model_validate_json(read_file(path, "cache"))

        record = read_cached(file, "allocation", read, reporter)
        if record is not None:
            return record
        curves = options if _is_made(file.parent, reporter) else None
        if spec.in_planes:
            quantized = self.prepare(source.model_copy(update={"quantization": chosen[0]}), rotation, reporter)
            with cancellable(loaded.model, reporter), cancellable(quantized.model, reporter):
                reporter.stage("allocation")
                record = allocate_in_planes(loaded, quantized, method, spec, file.stem, reporter)
        else:
            # Only linear layers of each width stay in memory: the session drops older models.
            variants = {
                bits: self._quantized_layers(source, rotation, quantization, reporter)
                for bits, quantization in zip(spec.choices, chosen, strict=True)
            }
            # Prepared once more, since those models may have displaced it.
            loaded = self.prepare(source, rotation, reporter)
            with cancellable(loaded.model, reporter):
                reporter.stage("allocation")
                record = allocate_jointly(loaded, variants, method, spec, file.stem, curves, reporter)
        products.remember_seconds(file.stem, record.seconds)
        content = record.model_dump_json().encode()
        write_cached(file, "allocation", lambda path: write_atomically(path, content), reporter)
        return record

    def _quantized_layers(
        self, source: ModelSource, rotation: RotationSpec, quantization: QuantizationSpec, reporter: Reporter
    ) -> dict[tuple[int, str], nn.Linear]:
        """Return the linear layer of each projection of the model with this quantization."""
        loaded = self.prepare(source.model_copy(update={"quantization": quantization}), rotation, reporter)
        return {
            (layer.index, name): projection.linear
            for layer in loaded.view.layers
            for name, projection in layer.projections.items()
        }

    def passes(self, loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> Stages:
        """Return the stages of passes of texts through a model, which continue after an interruption."""
        rotation = self.chosen(loaded.source, rotation, reporter)
        folder = products.passes_folder(_identity(loaded), rotation, loaded.source.quantization)
        products.remove_abandoned(folder.parent)
        return Stages(reporter, folder)

    def clear(self) -> None:
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


@dataclass(frozen=True)
class _WeightFile:
    """Quantized weights in a file of the cache."""

    file: Path
    reporter: Reporter

    def read(self) -> QuantizedSites | None:
        return read_cached(self.file, "quantized model", QuantizedSites.load, self.reporter)

    def write(self, weights: QuantizedSites, seconds: float) -> None:
        products.remember_seconds(self.file.stem, seconds)
        write_cached(self.file, "quantized model", weights.save, self.reporter)


def _weight_cache(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> _WeightFile | None:
    """Return the file of weights whose quantization reads a text; None for other weights."""
    spec = loaded.source.quantization
    if not isinstance(spec, QuantizationSpec) or not spec.reads_text:
        return None
    plain = loaded.source.unquantized
    return _WeightFile(products.quantized_file(products.identity(plain, loaded.folder), rotation, spec), reporter)


def calibration_key(
    loaded: LoadedModel,
    rotation: RotationSpec,
    method: MethodSpec,
    spec: CalibrationSpec,
    shares: SparsityPlan | None = None,
) -> str:
    return products.calibration_key(_identity(loaded), rotation, method, spec, shares)


def _identity(loaded: LoadedModel) -> str:
    return products.identity(loaded.source, loaded.folder)


def _read_allocation(file: Path, key: str) -> AllocationRecord:
    record = AllocationRecord.model_validate_json(read_file(file, "cache"))
    if record.key != key:
        raise WinaError("it holds another search.")
    return record


def _is_made(folder: Path, reporter: Reporter) -> bool:
    """Make a folder of the cache, or warn that a search keeps nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reporter.log("warning", f"Nothing of this search is kept, {folder} cannot be made ({error.strerror}).")
        return False
    return True


def _keep_allocation(record: AllocationRecord, file: Path, state: Path, reporter: Reporter) -> None:
    """Cache an allocation, and only then remove the state of its search, which resumes after a full disk."""
    content = record.model_dump_json().encode()
    if not write_cached(file, "allocation", lambda path: write_atomically(path, content), reporter):
        return
    try:
        state.unlink(missing_ok=True)
    except OSError as error:
        reporter.log("warning", f"{state} is needed no more but cannot be removed ({error.strerror}).")
