"""The rules and low-rank parts of a model's gates as tensors.

`rules`: int32 [parts, projections], the number of each projection's rule, -1 for none; parts are the decoder layers,
each followed by its experts. `values`: float64 [rules], inputs kept, or the threshold. `scale_3`, `centre_3` and
`replacement_3` are those of rule 3, [n] or [1]; `right_5_q` [r, n] and `left_5_q` [m, r] the low-rank part of q in
part 5.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from wina_core.compute.gating.gates import Gates
from wina_core.compute.gating.rules import Rule
from wina_core.compute.models.view import ModelView, Projection
from wina_core.compute.scoring.low_rank import LowRank
from wina_core.compute.scoring.selections import InputSelection, ThresholdSelection, TopKSelection
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec

_VECTORS = ("scale", "centre", "replacement")
Rules = list[dict[str, Rule]]
LowRanks = list[dict[str, LowRank]]


def gate_tensors(gates: Gates, view: ModelView) -> dict[str, Tensor]:
    """Return the rules and low-rank parts of gates as tensors that share no memory."""
    numbers: dict[int, int] = {}
    values: list[float] = []
    found: dict[str, Tensor] = {}
    table = torch.full((len(view.parts), len(view.projections)), -1, dtype=torch.int32)
    for part, (row, added) in enumerate(zip(gates.rules, gates.low_ranks, strict=True)):
        for name, rule in row.items():
            number = numbers.setdefault(id(rule), len(values))
            if number == len(values):
                select = rule.select
                values.append(select.keep if isinstance(select, TopKSelection) else select.threshold)
                vectors = {kind: getattr(rule, kind) for kind in _VECTORS}
                found |= {f"{kind}_{number}": _stored(each) for kind, each in vectors.items() if each is not None}
            table[part, view.projections.index(name)] = number
        for name, each in added.items():
            found |= {f"right_{part}_{name}": each.right.clone(), f"left_{part}_{name}": each.left.clone()}
    return {"rules": table, "values": torch.tensor(values, dtype=torch.float64), **found}


def _stored(vector: Tensor) -> Tensor:
    return (vector[:1] if vector.stride() == (0,) else vector).detach().clone()


def gates_of(
    tensors: Mapping[str, Tensor], view: ModelView, method: MethodSpec, *, ties: bool
) -> tuple[Rules, LowRanks]:
    """Return the rules and low-rank parts of each of the view's parts; WinaError for tensors of another model."""
    try:
        table, values = tensors["rules"].tolist(), tensors["values"].tolist()
    except KeyError as error:
        raise WinaError(f"The sparse model's files lack wina.{error.args[0]}; export the model again.") from error
    shape = len(view.parts), len(view.projections)
    if tuple(tensors["rules"].shape) != shape or not -1 <= min(map(min, table)) <= max(map(max, table)) < len(values):
        raise WinaError(
            f"The sparse model's gates are those of another model: its table of rules is "
            f"{list(tensors['rules'].shape)} with {len(values)} values, but the model has {list(shape)}; export it "
            "again."
        )
    if not all(map(math.isfinite, values)):
        raise WinaError("The sparse model's thresholds are not finite numbers; export the model again.")
    rules: dict[int, Rule] = {}
    rows: Rules = []
    added: LowRanks = []
    for number, (part, chosen) in enumerate(zip(view.parts, table, strict=True)):
        row: dict[str, Rule] = {}
        for name, rule in zip(view.projections, chosen, strict=True):
            if rule >= 0 and name in part.projections:
                projection = part.projections[name]
                if rule not in rules:
                    rules[rule] = _rule(tensors, rule, values[rule], projection, method, ties=ties)
                row[name] = rules[rule]
                vectors = (getattr(row[name], kind) for kind in _VECTORS)
                if any(each is not None and len(each) != projection.shape[1] for each in vectors):
                    raise WinaError(
                        f"Rule {rule} of the sparse model has vectors of another length than the inputs of {name}; "
                        "export the model again."
                    )
        rows.append(row)
        added.append(
            {
                name: _low_rank(tensors, f"{number}_{name}", projection)
                for name, projection in part.projections.items()
                if f"right_{number}_{name}" in tensors
            }
        )
    return rows, added


def _rule(
    tensors: Mapping[str, Tensor], number: int, value: float, projection: Projection, method: MethodSpec, *, ties: bool
) -> Rule:
    inputs, like = projection.shape[1], projection.linear.weight
    vectors: dict[str, Tensor] = {}
    for kind in _VECTORS:
        vector = tensors.get(f"{kind}_{number}")
        if vector is not None:
            if vector.shape not in ((inputs,), (1,)):
                raise _unfit(f"{kind}_{number}", vector, f"[{inputs}]")
            if not bool(vector.isfinite().all()):
                raise WinaError(f"wina.{kind}_{number} of the sparse model is not finite; export the model again.")
            vectors[kind] = vector.to(like.device, vector.dtype if kind == "scale" else like.dtype).expand(inputs)
    select: InputSelection
    if method.selection != "topk":
        select = ThresholdSelection(method.selection, value)
    elif value == int(value) and 0 <= value <= inputs:
        select = TopKSelection(int(value), ties)
    else:
        raise WinaError(
            f"Rule {number} of the sparse model keeps {value:g} of {inputs} inputs; export the model again."
        )
    return Rule(select, **vectors)


def _low_rank(tensors: Mapping[str, Tensor], key: str, projection: Projection) -> LowRank:
    (m, n), like = projection.shape, projection.linear.weight
    right, left = tensors[f"right_{key}"], tensors.get(f"left_{key}")
    if left is None or right.shape[1:] != (n,) or left.shape != (m, len(right)):
        raise _unfit(f"right_{key}", right, f"[r, {n}] beside left_{key} [{m}, r]")
    return LowRank(right.to(like.device, like.dtype), left.to(like.device, like.dtype))


def _unfit(name: str, tensor: Tensor, wanted: str) -> WinaError:
    return WinaError(
        f"wina.{name} of the sparse model is {list(tensor.shape)} instead of {wanted}; export the model again."
    )
