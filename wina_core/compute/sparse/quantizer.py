"""Sparse models for transformers: a quantization method of its extension point, registered when this is imported.

`AutoModelForCausalLM.from_pretrained` builds the model, lets this replace quantized layers and add the gates' tensors,
reads the files, and lets this attach the gates. No code comes from the folder.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from wina_core.compute.models.architectures import view
from wina_core.compute.models.norms import compute_norms_in_float64
from wina_core.compute.models.quantized_linear import PlaneLinear, QuantizedLinear, weight_of
from wina_core.compute.models.shortcuts import is_shortcut
from wina_core.compute.sparse.format import GateTensors, SparseSection, StoredWeights, TensorForm, parse_section
from wina_core.errors import WinaError
from wina_core.model_info.families import family_of
from wina_core.model_info.model_checks import SPARSE_METHOD, check_sizes
from wina_core.model_info.safetensors_header import TensorEntry, read_safetensors_header

PREFIX = "wina"
"""Name of the module that holds the gates' tensors."""
UNREGISTERED = {"none, but a sparse model: install wina-workbench and import wina_core.hf before loading it": True}
"""The entry `fusion_config` of config.json, a key of transformers for fused layers: without `WinaQuantizer`, which
removes it, transformers raises ValueError: Unknown fusion type: and this text. It only warns of unknown quantization
methods."""
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "I8": torch.int8,
    "U8": torch.uint8,
}


@register_quantization_config(SPARSE_METHOD)
class WinaConfig(QuantizationConfigMixin):
    """The section of a sparse model in config.json."""

    def __init__(self, **content: Any) -> None:
        self.quant_method = SPARSE_METHOD
        self._content = content
        self.section = parse_section(content)

    def to_dict(self) -> dict[str, Any]:
        return dict(self._content)

    def __deepcopy__(self, _memo: object) -> Self:
        return self  # transformers copies a config again and again, and nothing changes this one


@register_quantizer(SPARSE_METHOD)
class WinaQuantizer(HfQuantizer):
    """Loader of a sparse model."""

    # transformers then refuses to sparsify a plain model by this config, which has no gates for it.
    requires_calibration = True
    quantization_config: WinaConfig

    @property
    def section(self) -> SparseSection:
        return self.quantization_config.section

    def is_serializable(self) -> bool:
        return True  # `save_pretrained` writes the same folder again

    @property
    def is_trainable(self) -> bool:
        return False  # masks are constants to autograd, and quantized weights have no gradients

    def update_attn_implementation(self, config: Any) -> Any:
        """Check a config against the section, and return it without `UNREGISTERED`; called before a model is built."""
        text, layers = config.get_text_config(decoder=True), self.section.plan.layout.layers
        if (described_layers := text.num_hidden_layers) != layers:
            raise WinaError(
                f"The config.json of the sparse model describes {described_layers} layers, but its section {layers}; "
                "export the model again."
            )
        check_sizes(Path(config.name_or_path), vars(text))
        config.fusion_config = None
        return config

    def update_parallel_plan(self, model: Any, plan: dict[str, str]) -> None:
        """Do nothing. transformers' own searches all parameters for renamed ones, which takes long; none is renamed."""

    def _process_model_before_weight_loading(
        self, model: Any, checkpoint_files: Sequence[str] | None = None, **_: Any
    ) -> None:
        """Make places for all tensors of the files that the plain model does not have."""
        family_of(model.config.model_type, type(model).__name__)  # refuses AutoModel and the like in its own words
        entries: dict[str, TensorEntry] = {}
        for file in checkpoint_files or ():
            entries |= read_safetensors_header(Path(file)).tensors
        weights, gates = self.section.weights_by_name, self.section.gates_by_name
        _check_forms(
            {
                **{f"{name}.{kind}": form for name, stored in weights.items() for kind, form in stored.parts.items()},
                **{f"{PREFIX}.{name}": form for name, form in gates.items()},
            },
            entries,
        )
        if weights:
            modules = dict(model.named_modules())
            if not weights.keys() <= modules.keys():
                view(model)  # experts get layers of their own
                modules = dict(model.named_modules())
            for name, stored in weights.items():
                _replace(modules, name, stored)
        model.add_module(PREFIX, GateTensors({name: _empty(*form) for name, form in gates.items()}))
        _check_fits(model, entries)

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        """Attach what was read."""
        _check_devices(model)
        model.config.fusion_config = UNREGISTERED  # saved with it
        if weights := self.section.weights_by_name:
            modules = dict(model.named_modules())
            for name, stored in weights.items():
                _finish(modules, name, stored.form)
        if model.dtype == torch.float64:
            compute_norms_in_float64(model)
        model.requires_grad_(False)
        model.get_submodule(PREFIX).attach(view(model), self.section)
        return model

    def get_state_dict_and_metadata(self, model: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
        return whole_state(model), {}


class _StoredPlaceholder(nn.Module):
    """The place of a quantized layer while its tensors are read."""

    def __init__(self, linear: nn.Linear, forms: Mapping[str, TensorForm]) -> None:
        super().__init__()
        self.linear = [linear]  # no submodule
        self.bias = linear.bias
        for name, form in forms.items():
            self.register_buffer(name, _empty(*form))


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's tensors, contiguous and without shared memory but for tied ones; no residual shortcuts."""
    seen: dict[int, Tensor] = {}
    state = {}
    for name, tensor in model.state_dict().items():
        if is_shortcut(name):  # stored with the gates: other names are changed by some families
            continue
        # transformers recognizes tied weights by their memory; safetensors refuses any other tensors that share it.
        owner = seen.setdefault(tensor.data_ptr(), tensor)
        tied = owner is tensor or name.endswith("weight")
        state[name] = tensor.contiguous() if tied else tensor.clone()
    return state


def _check_devices(model: nn.Module) -> None:
    """Raise WinaError for a model with weights that are not where it computes, as device_map may leave them."""
    kinds = {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}
    if "meta" in kinds or len(kinds) > 1:
        raise WinaError(
            "Parts of the sparse model are offloaded, which its gates cannot read; load it with a device_map of GPUs "
            'alone, or with device_map="cpu".'
        )


def _check_forms(forms: Mapping[str, TensorForm], entries: Mapping[str, TensorEntry]) -> None:
    """Raise WinaError for files whose tensors of quantized weights and gates have other forms than in the section.

    Some families rename their layers while they are read, so that the names of weights in files may differ.
    """
    for name, form in forms.items():
        entry = entries.get(name)
        if entry is not None and (entry.dtype, entry.shape) != form:
            raise WinaError(
                f"{name} of the sparse model is {entry.dtype} {list(entry.shape)} in its files, but {form[0]} "
                f"{list(form[1])} in its section; export the model again."
            )


def _check_fits(model: Any, entries: Mapping[str, TensorEntry]) -> None:
    """Raise WinaError for files with other tensors than the model that config.json describes.

    Some families rename and stack tensors while they are read: where names differ, only the elements are counted.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict(keep_vars=True).items()}
    stored = {name: entry.shape for name, entry in entries.items()}
    different = dict(expected.items() - stored.items())
    for name in sorted(different.keys() & stored.keys()):
        raise WinaError(
            f"{name} of the sparse model is {list(stored[name])} in its files, but {list(expected[name])} by its "
            "config.json; export the model again."
        )
    absent = sorted(different.keys() - model.all_tied_weights_keys.keys())
    surplus = sorted(stored.keys() - expected.keys())
    expected_size, stored_size = (
        sum(prod(expected[name]) for name in absent),
        sum(prod(stored[name]) for name in surplus),
    )
    if expected_size != stored_size:
        first, *further = absent or surplus
        more = f" and {len(further)} more tensors" if further else ""
        raise WinaError(
            f"The sparse model's files hold {stored_size:,} elements of {first}{more}, but its config.json asks for "
            f"{expected_size:,}; export the model again."
        )


def _replace(modules: Mapping[str, nn.Module], name: str, stored: StoredWeights) -> None:
    parent, _, attribute = name.rpartition(".")
    linear = modules.get(name)
    with suppress(KeyError):  # the name of a tensor that no module may have
        if type(linear) is nn.Linear:
            setattr(modules[parent], attribute, _StoredPlaceholder(linear, stored.parts))
            return
    raise WinaError(
        f"The sparse model's section names the quantized weight {name}, which no such model has; export it again."
    )


def _finish(modules: Mapping[str, nn.Module], name: str, form: Mapping[str, Any]) -> None:
    parent, _, attribute = name.rpartition(".")
    stored: Any = modules[name]
    (linear,) = stored.linear
    linear.bias = stored.bias
    tensors = dict(stored.named_buffers())
    try:
        weight_t = weight_of(form, tensors)
        if weight_t.shape != (linear.in_features, linear.out_features):
            raise ValueError(f"it is {list(weight_t.shape)}")
    except (KeyError, TypeError, ValueError) as error:
        raise WinaError(
            f"The quantized weight {name} of the sparse model is damaged ({error}); export it again."
        ) from error
    made = PlaneLinear if "errors" in form else QuantizedLinear
    setattr(modules[parent], attribute, made(linear, weight_t))


def _empty(dtype: str, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=DTYPES[dtype], device="meta")
