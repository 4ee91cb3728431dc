"""State of an engine between jobs: the last few models, rotated or not, and results cached on disk."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import torch
from torch import nn

from wina_core.compute import pausable_clock
from wina_core.compute.allocation import allocate, allocate_in_planes, allocate_jointly
from wina_core.compute.allocation.cells import check_joint
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.evaluation.fidelity import check_window
from wina_core.compute.evaluation.original import BatchSize, ReferenceFile, make_reference, reference_bytes
from wina_core.compute.gating.tuning import check_tuning, correct_fractions, tuned_biases_of, tuned_calibration
from wina_core.compute.hooks import cancellable
from wina_core.compute.memory import release_memory
from wina_core.compute.models.loading import SPREAD, LoadedModel, fetched_folder, load_model, torch_device
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.quantization.apply import QuantizedSites
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.auto_rotation import choose_rotation, measured_spectra, stored_choice
from wina_core.compute.session.cache import cached, read_cached, rotated, save_json, stages_of, write_cached
from wina_core.compute.stages import Stages, alone
from wina_core.errors import WinaError
from wina_core.files.hardware import free_on_disk
from wina_core.files.user_file import read_file
from wina_core.model_info import products
from wina_core.model_info.folding import choice_under
from wina_core.model_info.model_checks import check_folder, read_supported
from wina_core.model_info.resolve import prepared_files, resolve
from wina_core.model_info.sizes import WORKING, loaded_bytes
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
MAX_REFERENCE_BYTES = 8 * 2**30
"""Largest file of a reference: the usual 16,384 tokens of a vocabulary of 262,144."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_Calls = Mapping[str, tuple[object, ...]]
"""{module name: ids of the module, its forward pass and its hooks, and its mode}."""


class Session:
    """Least recently used models by the hash of (source, rotation)."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._models: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()
        self._choices: dict[tuple[str, str], RotationChoice] = {}
        """Comparisons of rotations, by the hash of (source, rotation)."""
        self._references: Mapping[Path, ReferenceFile] = {}
        """Open files of `reference`."""
        self._calls: WeakKeyDictionary[nn.Module, _Calls] = WeakKeyDictionary()
        """Modules and hooks of the models as they were loaded."""
        self._changed: dict[nn.Module, str] = {}
        """Names of the first changed modules of models that are refused."""

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
        WinaError if the files differ from `source.fingerprint`, as loading, rotating and quantizing do, and for a model
        that `refusing_changed` refuses.
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
            self._calls.setdefault(loaded.model, _calls_of(loaded.model))
        self._models.move_to_end(key)
        model = self._models[key].model
        if model in self._changed:
            name = self._changed[model]
            raise WinaError(
                f"{f'The module {name}' if name else 'The model'} of {source.location} is not as it was loaded: it has "
                "a hook, a wrapper or training mode, which would change what is computed; remove that first."
            )
        return self._models[key]

    @contextmanager
    def refusing_changed(self) -> Iterator[None]:
        """Refuse, within the block, the models that the caller has changed when it begins: hooks would be measured."""
        before = self._changed
        self._changed = {
            model: name for model, calls in self._calls.items() if (name := _difference(calls, model)) is not None
        }
        try:
            yield
        finally:
            self._changed = before

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
            untuned, text = calibration, spec.text

            def tune(stages: Stages) -> Calibration:
                tokens = read_tokens(text, loaded.tokenizer)
                return tuned_calibration(loaded, method, resolved, untuned, tokens, reporter, stages)

            read = partial(tuned_biases_of, loaded.view)
            calibration = cached(file, _TUNING, read, tune, Calibration.save, loaded.model, reporter)
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

        def correct(stages: Stages) -> ResolvedPlan:
            tokens = read_tokens(spec.text, loaded.tokenizer)
            return correct_fractions(loaded, method, resolved, calibration, tokens, reporter, stages)

        def save(corrected: ResolvedPlan, path: Path) -> None:
            save_json(SparsityPlan(layout=layout, sparsity=corrected.fractions), path)

        return calibration, cached(file, _CORRECTION, read, correct, save, loaded.model, reporter)

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

        def measure(_: Stages) -> Calibration:
            measured = calibrate(loaded, method, spec, reporter, shares)
            products.remember_seconds(key, pausable_clock.now() - start)
            return measured

        save = Calibration.save
        calibration = cached(file, "calibration", Calibration.load, measure, save, loaded.model, reporter)
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
            # Only a kept record ends the search's state, from which it resumes after a full disk.
            if state is not None and write_cached(file, "allocation", partial(save_json, record), reporter):
                with suppress(OSError):
                    state.unlink(missing_ok=True)
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
        write_cached(file, "allocation", partial(save_json, record), reporter)
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

    def reference(
        self, source: ModelSource, text: TextSpec, batch_size: BatchSize, reporter: Reporter
    ) -> ReferenceFile:
        """Return the reference of the original of `source` on a text, from the disk or by one dense pass.

        The original is the stored weights computed in float32 at least, under any dtype of `source`: a reference in 16
        bits would be wrong by as much as a good configuration. What 16 bits cost is the divergence of the dense run.

        Call it before the configuration's own model is loaded: the original is dropped again unless it was in memory
        before. Of several engines that need one, the first computes it. Raises WinaError as loading and measuring do,
        and for a text too large for the disk or for `MAX_REFERENCE_BYTES`.
        """
        original = unchanged(source.unquantized)
        folder = fetched_folder(original, reporter)
        original = in_float32(original, folder, reporter)
        file = products.reference_file(original, folder, text)
        opened = self._references.get(file)
        if opened is not None and file.exists():
            return opened
        with alone(file, "the log-probabilities of the original", reporter):
            reference = read_cached(file, "reference", ReferenceFile, reporter)
            if reference is None:
                _check_size(text, read_supported(folder)[0]["vocab_size"], file.parent)  # now, not after loading
                with self.borrowed(original, NO_ROTATION, reporter) as loaded, cancellable(loaded.model, reporter):
                    _make(loaded, text, batch_size, reporter, file)
                # Before the configuration's own model is loaded.
                release_memory()
                reference = ReferenceFile(file)
        self._references = {file: reference}
        return reference

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


def in_float32(source: ModelSource, folder: Path, reporter: Reporter) -> ModelSource:
    """Return a source with float32 in place of 16 bits, on the processor if its accelerator has no room."""
    weights = check_folder(folder).weights
    sixteen = {"auto": {"F16", "BF16"} & {entry.dtype for entry in weights.values()}, "float32": (), "float64": ()}
    if not sixteen.get(source.dtype, True):
        return source
    device, size = source.device, loaded_bytes(weights, "float32")
    if torch_device(device).type == "cuda" and device != SPREAD and size * WORKING > torch.cuda.mem_get_info()[0]:
        reporter.log("info", "The original is computed on the processor, since in float32 it does not fit.")
        device = "cpu"
    return source.model_copy(update={"dtype": "float32", "device": device})


def _make(loaded: LoadedModel, text: TextSpec, batch_size: BatchSize, reporter: Reporter, file: Path) -> None:
    check_window(loaded, text)
    stages = stages_of(file, reporter)
    make_reference(loaded, read_tokens(text, loaded.tokenizer), batch_size, reporter, file, stages)
    stages.discard()


def _check_size(text: TextSpec, vocabulary: int, folder: Path) -> None:
    """Raise WinaError for a reference that is too large."""
    size = reference_bytes(text.tokens, vocabulary)
    free = free_on_disk(folder)
    if size > MAX_REFERENCE_BYTES:
        most = MAX_REFERENCE_BYTES // reference_bytes(1, vocabulary) // text.sequence * text.sequence
        limit = f"more than the largest, {MAX_REFERENCE_BYTES / 1e9:.1f} GB; choose at most {most:,} tokens"
    elif size > free:
        limit = f"and {folder} has {free / 1e9:.1f} GB left; free some space, or choose fewer tokens"
    else:
        return
    raise WinaError(
        f"The original's log-probabilities of {text.tokens:,} tokens and a vocabulary of {vocabulary:,} take "
        f"{size / 1e9:.1f} GB, {limit}."
    )


def _calls_of(model: nn.Module) -> _Calls:
    return {
        name: (
            id(module),  # no references, which would keep the model in memory
            id(module.__dict__.get("forward")),
            [id(hook) for hooks in _HOOKS for hook in getattr(module, hooks).values()],
            module.training,
        )
        for name, module in model.named_modules()
    }


def _difference(before: _Calls, model: nn.Module) -> str | None:
    """Return the name of the first module whose call has changed; None if there is none."""
    now = _calls_of(model)
    return next((name for name in (*now, *before) if now.get(name) != before.get(name)), None)
