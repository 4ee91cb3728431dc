"""Export of a gated model as a Hugging Face folder that gates itself when it is loaded."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from wina_core.compute.gating.gates import Gates
from wina_core.compute.hooks import attributes
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import QuantizedLinear, form_of, tensors_of
from wina_core.compute.models.shortcuts import shortcuts
from wina_core.compute.rotation.transform import SHARD, giving_back, new_folder
from wina_core.compute.scoring import TopKSelection
from wina_core.compute.sparse.format import (
    SHORTCUT,
    SparseSection,
    StoredTensors,
    StoredWeights,
    TensorForm,
    gate_tensors,
)
from wina_core.compute.sparse.quantizer import DTYPES, PREFIX, UNREGISTERED, WinaConfig, whole_state
from wina_core.files.version import __version__
from wina_core.model_info.sharing import PLAN_FILE, last_part, shared_quantization, shared_rotation
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def save_sparse(
    loaded: LoadedModel,
    gates: Gates,
    method: MethodSpec,
    plan: SparsityPlan,
    folder: Path,
    *,
    dense_prefix: float = 0.0,
    run: str = "",
    card: str = "",
    plan_file: str = "",
) -> None:
    """Write a gated model to a new folder, whole or not at all.

    Args:
        loaded: The model, rotated and quantized.
        gates: Its gates, without kernels.
        method: Their method.
        plan: Their target sparsities, for the record.
        folder: A new folder, or an empty one.
        dense_prefix: Share of a prompt's first tokens that is not gated.
        run: Hash of the run that measured it.
        card: The model card, Markdown.
        plan_file: The text of PLAN_FILE; empty for none.

    Raises:
        WinaError: if the folder is in use or the disk refuses.
    """
    selections = [rule.select for row in gates.rules for rule in row.values()]
    matrices = {
        SHORTCUT + name.replace(".", "_"): tensor.contiguous() for name, tensor in shortcuts(loaded.view).items()
    }
    tensors = {**gate_tensors(gates, loaded.view), **matrices}
    section = SparseSection(
        program=__version__,
        method=method,
        plan=plan,
        dense_prefix=dense_prefix,
        ties=any(select.ties for select in selections if isinstance(select, TopKSelection)),
        rotation=loaded.rotation and shared_rotation(loaded.rotation),
        quantization=shared_quantization(loaded.source.quantization),
        weights=_weights(loaded.model),
        gates=_gates(tensors),
        source=last_part(loaded.source.location),
        fingerprint=loaded.source.fingerprint,
        run=run,
    )
    config = WinaConfig(**section.signed().model_dump(mode="json"))
    with new_folder(folder, "sparse model") as partial, giving_back(loaded.view.mapped), gates.removed():
        state = {**whole_state(loaded.model), **{f"{PREFIX}.{name}": tensor for name, tensor in tensors.items()}}
        # For the file alone: the model in memory keeps its own config.
        with attributes(loaded.model.config, quantization_config=config, fusion_config=UNREGISTERED):
            loaded.model.save_pretrained(partial, state_dict=state, max_shard_size=SHARD)
        loaded.tokenizer.save_pretrained(partial)
        (partial / "README.md").write_text(card, encoding="utf-8")
        if plan_file:
            (partial / PLAN_FILE).write_text(plan_file, encoding="utf-8")


def _weights(model: nn.Module) -> tuple[StoredWeights, ...]:
    entries: dict[str, StoredWeights] = {}
    names: dict[str, list[str]] = {}
    for name, linear in model.named_modules():
        if isinstance(linear, QuantizedLinear):
            entry = StoredWeights(names=(), form=form_of(linear.weight_t), parts=_forms(tensors_of(linear.weight_t)))
            names.setdefault(key := entry.model_dump_json(), []).append(name)
            entries[key] = entry
    return tuple(entry.model_copy(update={"names": tuple(names[key])}) for key, entry in entries.items())


def _gates(tensors: Mapping[str, Tensor]) -> tuple[StoredTensors, ...]:
    by_form: dict[TensorForm, list[str]] = {}
    for name, form in _forms(tensors).items():
        by_form.setdefault(form, []).append(name)
    return tuple(StoredTensors(names=tuple(names), form=form) for form, names in by_form.items())


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, TensorForm]:
    return {name: (_NAMES[tensor.dtype], tuple(tensor.shape)) for name, tensor in tensors.items()}
