"""A plan is counted in tables: to the last bit what counting matrix by matrix gives, for every method."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.accounting.test_accounting import shape_of
from wina_core.accounting.cost import costs
from wina_core.accounting.masks import Mask
from wina_core.accounting.terms import ELEMENT_BYTES, Storage, gating, int4_group
from wina_core.masks.targets import cell_rho, mask_plan, resolve_plan
from wina_core.methods import METHODS, get_method
from wina_core.methods.base import BLOCKS
from wina_core.records import ModelShape
from wina_core.specs import MethodSpec, Quantization, method_specs
from wina_core.specs.plans import SparsityPlan


def kept(inputs: int, sparsity: float, method: MethodSpec) -> float:
    if method.selection == "topk":
        if method.variant == "as_released" or method.name == "larosa":
            return max(1, int(inputs * (1 - sparsity)))
        return max(1, inputs - int(sparsity * inputs + 0.5))
    return inputs * (1 - sparsity)


def matrix_by_matrix(
    shape: ModelShape, method: MethodSpec, plan: SparsityPlan, quantization: Quantization
) -> dict[str, tuple[float, float]]:
    """(operations, bytes) of the gated matrices, their low-rank parts and their masks, and (weights, numbers) read."""
    rule, element, names = get_method(method), ELEMENT_BYTES[shape.dtype], shape.layout.projections
    targets = resolve_plan(plan, shape.layout, method)
    dropped = mask_plan(targets, method).sparsity
    flops, read, low, weights = 0.0, 0.0, 0, 0.0
    masks: Counter[Mask] = Counter()
    for layer, counts in enumerate(shape.layout.parameters):
        sizes = {name: (count // n, n) for name, count, n in zip(names, counts, shape.inputs[layer], strict=True)}
        target, share = (dict(zip(names, table[layer], strict=True)) for table in (targets.sparsity, dropped))
        for name, (m, n) in sizes.items():
            of_rows = rule.by_gate_activation and name == "up"
            outputs, inputs = (kept(m, share[name], method), n) if of_rows else (m, kept(n, share[name], method))
            rank = rule.rank(name, (m, n), target[name], cell_rho(targets, layer, names.index(name)))
            block = next(block for block in BLOCKS if name in block)
            together = sum(sizes[other][0] for other in block if other in sizes) if shape.fused else m
            flops += 2 * outputs * inputs
            read += bytes_read(quantization, element, (m, n), outputs, inputs, together)
            low += rank * (m + n)
            weights += outputs * inputs + rank * (m + n)
        shares = None if targets.rho is None else dict(zip(names, targets.rho[layer], strict=True))
        masks.update(masks_of_layer(shape, method, sizes, share, shares))
    made = [gating(mask, method.selection, Storage(shape.dtype)) for mask in masks.elements()]
    return {
        "projections": (flops, read),
        "low rank": (2 * low, element * low),
        "gating": (sum(cost.flops for cost in made), sum(cost.bytes for cost in made)),
        "read": (weights, sum(mask.numbers for mask in masks.elements())),
    }


def bytes_read(
    quantization: Quantization, element: int, size: tuple[int, int], outputs: float, inputs: float, together: int
) -> float:
    if quantization == "int8":
        return outputs * inputs + element * outputs
    if quantization == "int4":
        return outputs * inputs / 2 + 2 * element * outputs * size[1] / int4_group(together, size[1])
    return element * outputs * inputs


def masks_of_layer(
    shape: ModelShape,
    method: MethodSpec,
    sizes: dict[str, tuple[int, int]],
    share: dict[str, float],
    shares: dict[str, float] | None,
) -> list[Mask]:
    rule, corrected = get_method(method), method.correction != "none"
    values, scalars = (rule.centring == "inputs") + corrected, int(rule.centring == "matrix")
    blocks = [tuple(name for name in block if name in sizes) for block in BLOCKS]
    by_norms = [rule.masks_by_norms(block, fused=shape.fused and len(block) > 1) for block in blocks]
    if shares is not None and rule.scores_by_shares:  # by its own norms where the share is below 1
        by_norms = [{name: () if shares[name] == 1 else (name,) for name in block} for block in by_norms]
    groups: dict[object, list[str]] = {}
    for block in [{"down": ()}] if rule.by_gate_activation else by_norms:
        for name, norms in block.items():
            inputs = kept(sizes[name][1], share[name], method)
            if inputs < sizes[name][1]:
                groups.setdefault((tuple(block), norms, inputs), []).append(name)
    return [
        Mask(
            sizes[names[0]][1],
            bool(norms),
            values,
            sum(sizes[name][0] for name in names if name not in shape.biased) if values or scalars else 0,
            scalars,
        )
        for (_, norms, _), names in groups.items()
    ]


@st.composite
def counted(draw: st.DrawFn) -> tuple[ModelShape, MethodSpec, SparsityPlan, Quantization]:
    """A model, a method and a plan that it can have, with cells that are alike and cells that are not."""
    shape = shape_of(
        layers=draw(st.integers(1, 4)),
        hidden=32 * draw(st.integers(1, 3)),
        head_dim=8,
        intermediate=32 * draw(st.integers(1, 4)),
        fused=draw(st.booleans()),
        biased=draw(st.sampled_from(((), ("q", "k", "v", "down")))),
    )
    name = draw(st.sampled_from(sorted(METHODS)))
    variant = draw(st.sampled_from(METHODS[name].variants))
    method = MethodSpec(
        name=name,
        variant=variant,
        selection=draw(st.sampled_from(("topk", "threshold"))),
        masks=draw(st.sampled_from(("separate",) if variant == "as_released" else ("separate", "shared"))),
        correction=draw(st.sampled_from(("none", "mean"))),
    )
    rule = get_method(method)
    target = st.sampled_from((0.0, 0.25, 0.5)) | st.floats(0.0, 0.99)
    rows = []
    for _ in range(shape.layout.layers):
        row = {name: draw(target) if rule.gates(name) else 0.0 for name in shape.layout.projections}
        if rule.by_gate_activation:
            row["up"] = row["down"]
        rows.append(tuple(row.values()))
    table = st.lists(
        st.sampled_from((0.9, 1.0)) | st.floats(0.1, 1.0), min_size=len(rows[0]), max_size=len(rows[0])
    ).map(tuple)
    rho = tuple(draw(table) for _ in rows) if rule.default_rho is not None and draw(st.booleans()) else None
    plan = SparsityPlan(layout=shape.layout, sparsity=tuple(rows), origin="edited", rho=rho)
    return shape, method, plan, draw(st.sampled_from(("none", "int8", "int4")))


@settings(max_examples=50)
@given(counted())
def test_a_plan_is_counted_as_matrix_by_matrix(case):
    shape, method, plan, quantization = case
    found = costs(shape, method, plan, quantization=quantization, rotations=("none",)).rows[-1]
    terms = {term.name: (term.flops, term.bytes) for term in found.terms}
    expected = matrix_by_matrix(shape, method, plan, quantization)
    weights, numbers = expected.pop("read")
    assert {name: terms[name] for name in expected} == expected
    whole = sum(map(sum, shape.layout.parameters))
    assert found.counted_sparsity == 1 - weights / whole
    assert found.full_sparsity == found.counted_sparsity - numbers / whole


@pytest.mark.parametrize("quantization", ["none", "int4"])
def test_tables_of_sizes_are_kept_and_not_changed_by_counting(quantization):
    shape = shape_of(hidden=32, head_dim=8, intermediate=64)
    plan = SparsityPlan.uniform(shape.layout, 0.25)
    before = costs(shape, MethodSpec(name="wina"), plan, quantization=quantization)
    for method in method_specs():
        costs(shape, method, SparsityPlan.uniform(shape.layout, 0.0), quantization=quantization)
    assert costs(shape, MethodSpec(name="wina"), plan, quantization=quantization) == before
