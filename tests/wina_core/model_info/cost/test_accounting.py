"""The cost of a generated token: every term against a count by hand, and properties of any model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.cost.terms import Storage
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.records import CostRecord, CostRow, ModelShape
from wina_core.specs import ROTATION_MODES, MethodSpec
from wina_core.specs.plans import PlanLayout, UniformSparsity

WINA = MethodSpec(name="wina")
THRESHOLD = MethodSpec(name="wina", selection="threshold")
TEAL = MethodSpec(name="teal")
HALF = UniformSparsity(sparsity=0.5)


def shape_of(
    layers: int = 2,
    hidden: int = 8,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 2,
    intermediate: int = 16,
    vocabulary: int = 32,
    gated_mlp: bool = True,
    **changes: object,
) -> ModelShape:
    """A small decoder, by its sizes: RMSNorms, grouped queries, rotary embeddings, no biases."""
    q, kv = heads * head_dim, kv_heads * head_dim
    matrices = {"q": (q, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, q)}
    matrices |= {"gate": (intermediate, hidden)} if gated_mlp else {}
    matrices |= {"up": (intermediate, hidden), "down": (hidden, intermediate)}
    row = tuple(m * n for m, n in matrices.values())
    shape = ModelShape(
        layout=PlanLayout(projections=tuple(matrices), parameters=(row,) * layers),
        inputs=(tuple(n for _, n in matrices.values()),) * layers,
        fused=False,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary_dim=head_dim,
        windows=(None,) * layers,
        head_weights=vocabulary * hidden,
        further_weights=0,
        embedding_row=hidden,
        rms_norm_inputs=(2 * layers + 1) * hidden,
        layer_norm_inputs=0,
        norm_weights=(2 * layers + 1) * hidden,
        biases=0,
        dtype="float32",
    )
    return shape.model_copy(update=changes)


def row(record: CostRecord, rotation: str) -> CostRow:
    (cost_row,) = (row for row in record.rows if row.rotation == rotation)
    return cost_row


def terms(row: CostRow) -> dict[str, tuple[float, float]]:
    return {term.name: (term.flops, term.bytes) for term in row.terms}


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_every_term_of_a_tiny_model_is_what_a_count_by_hand_gives():
    # Per layer q 8x8, k and v 4x8, o 8x8, gate and up 16x8, down 8x16: 64 + 32 + 32 + 64 + 3 * 128 = 576 weights.
    record = costs(shape_of(), WINA, HALF, context=10)
    assert [row.rotation for row in record.rows] == ["dense", *ROTATION_MODES]
    always = {
        "attention": (2 * 4 * 10 * (2 * 2 + 2 * 2 + 6), 2 * 2 * 2 * 2 * 10 * 4),  # layers, heads, positions, ...
        "norms": (4 * 5 * 8, 5 * 8 * 4),
        "elementwise": (2 * (2 * 8 + 3 * 2 * (4 + 2) + 2 * 16), 0),  # residuals, rotary, activation and product
        "head": (2 * 32 * 8, 32 * 8 * 4),
        "embedding": (0, 8 * 4),
    }
    nothing = dict.fromkeys(("low rank", "gating", "shortcuts"), (0, 0))
    assert terms(record.rows[0]) == {"projections": (2 * 2 * 576, 2 * 576 * 4), **nothing, **always}
    # A mask for each matrix: 6 over 8 inputs and 1 over 16; a multiplication and 4 comparisons an input, float32 norms.
    inputs = 2 * (6 * 8 + 16)
    for mode, count in {"none": 0, "global": 0, "per_layer": 1, "per_site": 3}.items():
        assert terms(row(record, mode)) == {
            "projections": (2 * 576, 576 * 4),
            "low rank": (0, 0),
            "gating": (5 * inputs, 4 * inputs),
            "shortcuts": (2 * count * 64, count * 64 * 4),
            **always,
        }
        assert row(record, mode).shortcut_weights == count * 64
        assert row(record, mode).gated_sparsity == 0.5
        assert row(record, mode).net_sparsity == 0.5 - (count * 64 + inputs) / 1152
    site = row(record, "per_site")
    assert site.gated_flops == 2 * 576 + 512
    assert site.gated_flops_saving == 1 - (1152 + 512) / (2304 + 512)
    assert site.gated_bytes_saving == 1 - (2304 + 1024) / (4608 + 1024)
    assert site.net_flops == sum(term.flops for term in site.terms)
    assert site.net_flops_saving == 1 - site.net_flops / record.rows[0].net_flops
    assert site.net_bytes_saving == 1 - site.net_bytes / record.rows[0].net_bytes


def test_layer_norms_biases_windows_and_a_mlp_without_gate_are_counted():
    shape = shape_of(
        gated_mlp=False, windows=(3, None), biases=5, layer_norm_inputs=40, rms_norm_inputs=0, rotary_dim=0,
        further_weights=100, dtype="bfloat16",
    )  # fmt: skip
    counted = terms(costs(shape, WINA, HALF, context=10).rows[0])
    assert counted["projections"] == (2 * 2 * 448, 2 * 448 * 2)
    assert counted["attention"] == (4 * (3 + 10) * 14, 2 * 2 * 2 * 13 * 2)
    assert counted["norms"] == (7 * 40, 40 * 2)
    assert counted["elementwise"] == (5 + 2 * (2 * 8 + 16), 5 * 2)
    assert counted["head"] == (2 * (256 + 100), 356 * 2)


@pytest.mark.parametrize(
    ("selection", "decisions"),
    [("threshold", 16), ("topk", 4 * 16), ("statistical", 4 * 16), ("top_p", 16 * 4 + 3 * 16)],
)
def test_each_selection_has_its_price(selection, decisions):
    shape = shape_of(layers=1, hidden=16, head_dim=4, intermediate=16)  # seven matrices with 16 inputs
    method = MethodSpec(name="teal", selection=selection)
    assert terms(row(costs(shape, method, HALF), "none"))["gating"] == (4 * decisions, 0)
    corrected = method.model_copy(update={"correction": "mean"})
    outputs = 16 + 8 + 8 + 16 + 3 * 16
    assert terms(row(costs(shape, corrected, HALF), "none"))["gating"] == (
        4 * (decisions + 16) + outputs,
        4 * (4 * 16 + outputs),
    )


@pytest.mark.parametrize("masks", ["shared", "separate"])
def test_mixed_selection_costs_what_each_projection_does(masks):
    shape, plan = shape_of(layers=1), UniformSparsity(sparsity=0.37)
    mixed, top_k, threshold = (
        row(costs(shape, MethodSpec(name="wina", masks=masks, selection=selection), plan), "none")
        for selection in ("mixed", "topk", "threshold")
    )
    # By top k, q, k, v and o drop 3 of 8 inputs, down 6 of 16; gate and up drop 37 % of theirs on average.
    dropped = (3 / 8) * (64 + 32 + 32 + 64 + 128) + 0.37 * 256
    assert mixed.gated_sparsity == pytest.approx(dropped / 576)
    blocks = (3, 2) if masks == "separate" else (1, 1)
    decisions = 4 * (8 * blocks[0] + 8 + 16) + 8 * blocks[1]
    scoring = 8 * blocks[0] + 8 + 16 + 8 * blocks[1]
    assert terms(mixed)["gating"][0] == decisions + scoring
    assert terms(threshold)["gating"][0] < terms(mixed)["gating"][0] < terms(top_k)["gating"][0]


def test_quantized_weights_are_read_with_their_scales():
    def read(sizes: tuple[int, int, int, int], quantization: str = "none") -> float:
        return float(Storage("bfloat16", quantization).matrix_bytes(*map(np.array, sizes)))

    assert read((10, 96, 48, 10)) == 2 * 480
    assert read((10, 96, 48, 10), "int8") == 480 + 2 * 10
    assert read((10, 96, 48, 10), "int4") == 240 + 2 * 2 * 10 * 3
    assert read((10, 128, 48, 10), "int4") == 240 + 2 * 2 * 10 * 2
    assert read((9, 96, 48, 9), "int4") == 216 + 2 * 2 * 9 * 6  # 27 groups of 32 are odd
    assert read((9, 96, 48, 18), "int4") == 216 + 2 * 2 * 9 * 3  # in a layer with 9 more
    with pytest.raises(WinaError, match="24 inputs and 10 outputs, which do not divide into them; choose int8"):
        read((10, 24, 12, 10), "int4")
    plain, int8 = (terms(row(costs(shape_of(), WINA, HALF, quantization=q), "per_site")) for q in ("none", "int8"))
    assert int8["projections"][1] == 576 + 4 * 2 * (8 + 4 + 4 + 8 + 16 + 16 + 8)
    assert {name for name in plain if plain[name] != int8[name]} == {"projections"}


def test_cats_leaves_attention_and_gate_dense():
    # One layer: 576 weights, 256 of them in up and down; a quarter of all is 9/16 of those: 9 of 16 hidden units.
    shape = shape_of(layers=1)
    cats = MethodSpec(name="cats")
    cost_row = row(costs(shape, cats, UniformSparsity(sparsity=0.25)), "none")
    assert terms(cost_row)["projections"] == (2 * (576 - 144), (576 - 144) * 4)
    assert terms(cost_row)["gating"] == (4 * 16, 0)
    assert cost_row.gated_sparsity == 0.25
    with pytest.raises(WinaError, match="out of its reach"):
        costs(shape, cats, UniformSparsity(sparsity=0.65))


def test_rsparse_pays_for_its_low_rank_part_within_its_budget():
    shape = shape_of(layers=1, hidden=64, heads=4, kv_heads=4, head_dim=16, intermediate=64)  # seven of 64 x 64
    cost_row = row(costs(shape, MethodSpec(name="rsparse", rho=0.75), HALF), "none")
    rank, kept_inputs = 4, 24  # floor(64 * 64 / 2 / 4 / 128) and 64 / 2 * 3 / 4
    assert terms(cost_row)["low rank"] == (7 * 2 * rank * 128, 7 * rank * 128 * 4)
    assert terms(cost_row)["projections"][0] == 7 * 2 * 64 * kept_inputs
    assert cost_row.gated_sparsity == 0.5


def test_replacing_dropped_inputs_by_their_modes_costs_a_bias():
    shape, scap = shape_of(layers=1), MethodSpec(name="scap", variant="own")
    cost_row = row(costs(shape, scap, HALF), "none")
    outputs, inputs = 8 + 4 + 4 + 8 + 16 + 16 + 8, 8 + 8 + 8 + 16
    assert terms(cost_row)["gating"] == (4 * inputs + inputs + outputs, 4 * (inputs + outputs))
    assert cost_row.net_sparsity == 0.5 - (inputs + outputs) / 576
    biased = shape.model_copy(update={"biased": ("q", "k", "v", "down")})  # which take it in
    cost_row = row(costs(biased, scap, HALF), "none")
    assert terms(cost_row)["gating"] == (4 * inputs + inputs + outputs - 24, 4 * (inputs + outputs - 24))
    assert cost_row.net_sparsity == 0.5 - (inputs + outputs - 24) / 576
    both = row(costs(shape, scap.model_copy(update={"correction": "mean"}), HALF), "none")
    assert terms(both)["gating"] == (4 * inputs + 2 * inputs + outputs, 4 * (2 * inputs + outputs))


# ---- what must hold for any model ------------------------------------------------------------------------------------

sparsities = st.floats(min_value=0.0, max_value=0.99)
shapes = st.builds(
    shape_of,
    layers=st.integers(1, 4),
    hidden=st.integers(2, 64),
    heads=st.sampled_from((2, 4, 8)),
    kv_heads=st.sampled_from((1, 2)),
    head_dim=st.sampled_from((2, 4, 16)),
    intermediate=st.integers(2, 200),
    vocabulary=st.integers(1, 1000),
    gated_mlp=st.booleans(),
)


@given(
    shape=shapes,
    sparsity=sparsities,
    context=st.integers(1, 10_000),
    quantization=st.sampled_from(("none", "int8")),
)
def test_in_full_a_method_never_saves_more_than_it_counts(shape, sparsity, context, quantization):
    record = costs(shape, WINA, UniformSparsity(sparsity=sparsity), context=context, quantization=quantization)
    none, global_, layer, site = record.rows[1:]
    for cost_row in record.rows:
        assert cost_row.net_sparsity <= cost_row.gated_sparsity
        assert cost_row.net_flops_saving <= cost_row.gated_flops_saving + 1e-12
        assert cost_row.net_bytes_saving <= cost_row.gated_bytes_saving + 1e-12
    assert none.terms == global_.terms
    assert none.net_sparsity == global_.net_sparsity
    assert none.net_flops <= layer.net_flops <= site.net_flops
    assert len({cost_row.gated_flops for cost_row in record.rows[1:]}) == 1


# ---- the warning -----------------------------------------------------------------------------------------------------


def test_the_warning_names_what_was_paid_and_what_was_bought():
    warning = sparsity_warning(0.15, -0.028)
    assert all(share in warning for share in ("17.8 %", "15.0 %", "2.8 % more is read"))
    for nothing in ((None, None), (math.nan, math.nan), (0.5, 0.0)):
        assert sparsity_warning(*nothing) == ""
