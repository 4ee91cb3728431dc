"""The format of sparse models: the part of config.json that describes one, and the gates as tensors, with their module.

`rules`: int32 [parts, projections], the number of each projection's rule, -1 for none; parts are the decoder layers,
each followed by its experts. `values`: float64 [rules], inputs kept, or the threshold. `scale_float32`,
`centre_bfloat16` and the like: vectors of that data type, [n] or [1] of each rule, one after the other; `lengths`:
int32 [rules, such tensors in the order of their names], 0 for none. `right_5_q` [r, n] and `left_5_q` [m, r]: the
low-rank part of q in part 5, `bias_5_q` [m] its tuned bias.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from threading import Lock, get_ident
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from wina_core.compute.gating.gates import Gates
from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.quantized_linear import moved, uncompiled, weight_like
from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.view import ModelView, Projection
from wina_core.compute.scoring import InputSelection, LowRank, ThresholdSelection, TopKSelection
from wina_core.errors import WinaError, explain
from wina_core.specs import MethodSpec, Quantization, RotationSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import ResolvedPlan, SparsityPlan

TensorForm = tuple[str, tuple[int, ...]]
"""Data type as in safetensors, and shape."""


class StoredWeights(BaseModel):
    """Quantized weights of one form: their tensors are under the modules' names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...]
    """Linear layers."""
    form: dict[str, Any]
    """As of `quantized_linear.form_of`."""
    parts: dict[str, TensorForm]


class StoredTensors(BaseModel):
    """Tensors of the gates that have one form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...]
    form: TensorForm


class SparseSection(BaseModel):
    """Everything about a sparse model that is no tensor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quant_method: Literal["wina"] = "wina"
    format_version: Literal[1] = 1
    program: str
    """Version of the program that wrote it."""
    method: MethodSpec
    plan: SparsityPlan
    """Target sparsities of its matrices."""
    dense_prefix: float = Field(default=0.0, ge=0, lt=1)
    """Share of a prompt's first tokens that is not gated."""
    ties: bool = False
    """Whether top k keeps all inputs that score like the last one."""
    rotation: RotationSpec | None = None
    quantization: Quantization = "none"
    weights: tuple[StoredWeights, ...] = ()
    """Quantized linear layers. Equal ones have one entry, since transformers copies and prints this several times."""
    gates: tuple[StoredTensors, ...] = ()
    """Tensors of the gates."""
    source: str = ""
    """The model it was made from."""
    fingerprint: str = ""
    run: str = ""
    """Hash of the run that measured it."""
    digest: str = ""
    """Hash of the other fields, to detect changes."""

    @property
    def weights_by_name(self) -> dict[str, StoredWeights]:
        return {name: entry for entry in self.weights for name in entry.names}

    @property
    def gates_by_name(self) -> dict[str, TensorForm]:
        return {name: entry.form for entry in self.gates for name in entry.names}

    def signed(self) -> "SparseSection":
        return self.model_copy(update={"digest": _digest(self.model_dump(mode="json", exclude={"digest"}))})


def _digest(content: dict[str, Any]) -> str:
    # Of the content in config.json, so that defaults of later versions change nothing.
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parse_section(content: dict[str, Any]) -> SparseSection:
    """Return a section; raise WinaError for a damaged one and for one of another version."""
    version = content.get("format_version")
    if version != 1:
        raise WinaError(
            f"The sparse model's section in config.json has the format version {version!r}, but this program reads 1; "
            "install the version of wina-workbench that wrote it, or export the model again."
        )
    try:
        section = SparseSection.model_validate(content)
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(
            f"The sparse model's section in config.json is damaged ({reason}); export the model again."
        ) from error
    named = {name: value for name, value in content.items() if name != "digest"}
    if section.digest != _digest(named):
        raise WinaError(
            "The sparse model's section in config.json was changed after it was written; export the model again."
        )
    return section


KERNELS = {"decoding": True}
"""Whether decoding reads only the weights of kept inputs, by kernels; what they return differs by rounding alone."""
SHORTCUT = "shortcut_"
"""Beginning of the names of residual shortcuts there."""


class GateTensors(nn.Module):
    """The tensors of a model's gates, stored and moved with it, and the gates themselves."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.gates: Gates | None = None
        """The attached gates: `enabled`, `gated_sparsity`, counts."""
        self._gated: tuple[ModelView, SparseSection] | None = None
        self._calling: set[int] = set()
        """Threads whose calls of the model are in progress."""
        self._turn = Lock()

    def attach(self, view: ModelView, section: SparseSection) -> None:
        """Gate the model; raise WinaError if the gates do not fit it."""
        self._gated = view, section
        self._attach()
        view.model.register_forward_pre_hook(self._before_call, with_kwargs=True)
        view.model.register_forward_hook(self._after_call, always_call=True)

    def _attach(self) -> None:
        assert self._gated is not None
        view, section = self._gated
        section.plan.for_layout(view.layout)
        tensors = dict(self.named_buffers())
        set_shortcuts(
            view,
            {
                name.removeprefix(SHORTCUT).replace("_", "."): tensor
                for name, tensor in tensors.items()
                if name.startswith(SHORTCUT)
            },
        )
        rules, low_ranks, biases = gates_of(tensors, view, section.method, section.plan, ties=section.ties)
        self.gates = Gates(view, section.method, rules, low_ranks, section.dense_prefix, biases=biases)

    @uncompiled
    def _before_call(self, _model: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        past, gates = kwargs.get("past_key_values"), self.gates
        decodes = KERNELS["decoding"] and past is not None and past.get_seq_length() > 0
        with self._turn:  # calls wait while weights are transposed, but none are while another call reads them
            self._calling.add(get_ident())
            if decodes and gates is not None and not gates.has_kernels and len(self._calling) == 1:
                gates.attach_kernels()

    @uncompiled
    def _after_call(self, *_: object) -> None:
        self._calling.discard(get_ident())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(partial(moved, fn), recurse)  # rules keep their data types
        if self.gates is not None:  # the layers, which come first, have moved
            before = self.gates
            counts = before.counts()
            before.detach()
            self._attach()
            self.gates.enabled = before.enabled
            if before.has_kernels:
                self.gates.attach_kernels()
            self.gates.set_counts(counts)
        return self


_VECTORS = ("scale", "centre", "replacement")
Rules = list[dict[str, Rule]]
LowRanks = list[dict[str, LowRank]]
Biases = list[dict[str, Tensor]]


def gate_tensors(gates: Gates, view: ModelView) -> dict[str, Tensor]:
    """Return the rules and low-rank parts of gates as tensors that share no memory."""
    numbers: dict[int, int] = {}
    values: list[float] = []
    added_tensors: dict[str, Tensor] = {}
    packs: dict[str, dict[int, Tensor]] = {}
    table = torch.full((len(view.parts), len(view.projections)), -1, dtype=torch.int32)
    for row_index, (row, added, biases) in enumerate(zip(gates.rules, gates.low_ranks, gates.biases, strict=True)):
        for name, rule in row.items():
            number = numbers.setdefault(id(rule), len(values))
            if number == len(values):
                select = rule.select
                values.append(select.keep if isinstance(select, TopKSelection) else select.threshold)
                vectors = {kind: getattr(rule, kind) for kind in _VECTORS}
                for kind, vector in vectors.items():
                    if vector is not None:
                        dtype = str(vector.dtype).removeprefix("torch.")
                        packs.setdefault(f"{kind}_{dtype}", {})[number] = _stored(vector)
            table[row_index, view.projections.index(name)] = number
        # safetensors refuses tensors that share memory.
        added_tensors |= {f"bias_{row_index}_{name}": bias.clone() for name, bias in biases.items()}
        for name, low_rank in added.items():
            added_tensors |= {
                f"right_{row_index}_{name}": low_rank.right.clone(),
                f"left_{row_index}_{name}": low_rank.left.clone(),
            }
    packed = {name: torch.cat([pack[number] for number in sorted(pack)]) for name, pack in packs.items()}
    lengths = [[len(packs[name].get(number, ())) for name in sorted(packs)] for number in range(len(values))]
    return {
        "rules": table,
        "values": torch.tensor(values, dtype=torch.float64),
        "lengths": torch.tensor(lengths, dtype=torch.int32).view(len(values), len(packs)),
        **packed,
        **added_tensors,
    }


def _stored(vector: Tensor) -> Tensor:
    return (vector[:1] if vector.stride() == (0,) else vector).detach().cpu()


def _check_numbers(name: str, vector: Tensor) -> None:
    """Raise WinaError for numbers that no gate has."""
    plain = vector.float() if vector.dtype == torch.bfloat16 else vector
    numbers = plain.cpu().numpy()  # torch would wake its threads, which takes longer
    fault = "is not finite" if not np.isfinite(numbers).all() else ""
    if not fault and name.startswith("scale") and (numbers.min() < 0 or not numbers.any()):
        fault = "has negative factors, or only zeros"
    if fault:
        raise WinaError(f"wina.{name} of the sparse model {fault}; export the model again.")


def _vectors(tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the vectors of each rule by their kinds."""
    names = sorted(name for name in tensors if name.startswith(_VECTORS))
    lengths = tensors["lengths"]
    by_rule: list[dict[str, Tensor]] = [{} for _ in range(len(tensors["values"]))]
    for name, rule_lengths in zip(names, lengths.T.tolist(), strict=True):
        _check_numbers(name, tensors[name])
        for vectors, vector in zip(by_rule, tensors[name].split(rule_lengths), strict=True):
            if len(vector):
                vectors[name.partition("_")[0]] = vector
    return by_rule


def gates_of(
    tensors: Mapping[str, Tensor], view: ModelView, method: MethodSpec, plan: SparsityPlan, *, ties: bool
) -> tuple[Rules, LowRanks, Biases]:
    """Return the rules, the low-rank parts and the tuned biases of each part of a view.

    Args:
        tensors: As of `gate_tensors`, with the forms that the signed section names.
        view: The model to gate.
        method: The gates' method.
        plan: Their target sparsities, resolved.
        ties: Whether top k keeps all inputs that score like the last one.

    Raises:
        WinaError: if the tensors belong to another model, method or plan.
    """
    table, values = tensors["rules"].tolist(), tensors["values"].tolist()
    try:
        vectors = _vectors(tensors)
    except (IndexError, RuntimeError, ValueError) as error:  # of lengths
        raise WinaError("The sparse model's rules have vectors of other lengths; export the model again.") from error
    shape = len(view.parts), len(view.projections)
    if tuple(tensors["rules"].shape) != shape or not -1 <= min(map(min, table)) <= max(map(max, table)) < len(values):
        raise WinaError(
            f"The sparse model's gates are those of another model: its table of rules is "
            f"{list(tensors['rules'].shape)} with {len(values)} values, but the model has {list(shape)}; export it "
            "again."
        )
    if not all(map(math.isfinite, values)):
        raise WinaError("The sparse model's thresholds are not finite numbers; export the model again.")
    gate_rule, targets = get_method(method), ResolvedPlan.of(plan, method).masks
    kept_count = cache(lambda inputs, target: int(gate_rule.kept(inputs, target)))
    rules: dict[int, Rule] = {}
    rows: Rules = []
    added: LowRanks = []
    biases: Biases = []
    for number, (layer, chosen) in enumerate(zip(view.parts, table, strict=True)):
        row: dict[str, Rule] = {}
        for name, rule, target in zip(view.projections, chosen, targets[layer.index], strict=True):
            gated = name in layer.projections and gate_rule.gates(name)
            if gated != (rule >= 0):
                raise WinaError(
                    f"The sparse model has {'no' if gated else 'a'} rule for {name} of layer {layer.index}, which its "
                    f"method {'gates' if gated else 'leaves dense'}; export the model again."
                )
            if not gated:
                continue
            projection = layer.projections[name]
            inputs = projection.shape[1]
            if any(len(vector) not in (1, inputs) for vector in vectors[rule].values()):
                raise WinaError(
                    f"Rule {rule} of the sparse model has vectors of another length than the inputs of {name}; "
                    "export the model again."
                )
            selection, most = method.selection_of(name), kept_count(inputs, target)
            if selection == "topk" and values[rule] != most:
                raise WinaError(
                    f"Rule {rule} of the sparse model keeps {values[rule]:g} of the {inputs} inputs of {name}, but its "
                    f"plan {most}; export the model again."
                )
            if rule not in rules:
                select: InputSelection = TopKSelection(most, ties)
                if selection != "topk":
                    select = ThresholdSelection(selection, values[rule], method.fewest(most))
                rules[rule] = _rule(vectors[rule], select, projection)
            row[name] = rules[rule]
        rows.append(row)
        added.append(
            {
                name: _low_rank(tensors, f"{number}_{name}", projection)
                for name, projection in layer.projections.items()
                if f"right_{number}_{name}" in tensors
            }
        )
        biases.append(
            {
                name: _bias(tensors, f"bias_{number}_{name}", projection)
                for name, projection in layer.projections.items()
                if f"bias_{number}_{name}" in tensors
            }
        )
    return rows, added, biases


def _rule(stored: Mapping[str, Tensor], select: InputSelection, projection: Projection) -> Rule:
    inputs, like = projection.shape[1], weight_like(projection.linear)
    vectors = {
        kind: vector.to(like.device, vector.dtype if kind == "scale" else like.dtype).expand(inputs)
        for kind, vector in stored.items()
    }
    return Rule(select, **vectors)


def _bias(tensors: Mapping[str, Tensor], key: str, projection: Projection) -> Tensor:
    like = weight_like(projection.linear)
    bias = tensors[key].to(like.device, like.dtype)
    _check_numbers(key, bias)
    return bias


def _low_rank(tensors: Mapping[str, Tensor], key: str, projection: Projection) -> LowRank:
    like = weight_like(projection.linear)
    return LowRank(*(tensors[f"{side}_{key}"].to(like.device, like.dtype) for side in ("right", "left")))
