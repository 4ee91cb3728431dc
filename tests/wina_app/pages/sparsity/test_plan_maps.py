"""Numbers read off stored curves and counted from a plan: maps, read-outs and presets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from wina_app.pages.sparsity.plan_maps import (
    CONTEXT,
    Counting,
    PlanFigures,
    PlanMaps,
    measured_table,
    plan_figures,
)
from wina_app.pages.sparsity.presets import (
    PAPER_BUDGETS,
    attention_only,
    dense_ends,
    rising,
    uniform,
)
from wina_app.pages.sparsity.stored_data import CellCurves, StoredCellData, StoredPlanData

from tests.wina_app.stored_runs import PROJECTIONS, layout, shape, summary
from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.specs import MethodSpec, QuantizationSpec, RotationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.store import RunLayerMap
from wina_core.store.rows import CellStat

WINA, CATS = MethodSpec(name="wina"), MethodSpec(name="cats")
LAYOUT = layout(2)
UNIFORM = SparsityPlan.uniform(LAYOUT, 0.4)


def curve(projection: str, *points: tuple[float, float], layer: int = 0) -> list[CellStat]:
    return [CellStat("m", layer, projection, x, value) for x, value in points]


def everywhere(*points: tuple[float, float], at_zero: float = 0.0) -> CellCurves:
    """The same curve in every cell."""
    stats = [row for layer in range(2) for name in PROJECTIONS for row in curve(name, *points, layer=layer)]
    found = CellCurves.of(LAYOUT, stats, at_zero)
    assert found is not None
    return found


def maps(plan: SparsityPlan = UNIFORM, method: MethodSpec = WINA, **cells: CellCurves) -> PlanMaps:
    return PlanMaps(plan, method, StoredPlanData(cells=StoredCellData(**cells)))


def figures(shown: PlanMaps, method: MethodSpec = WINA, mode: str = "global", of=None) -> PlanFigures:
    return plan_figures(shown, Counting(method, RotationSpec(mode=mode), "none", of or summary(2)))


def test_bits_change_what_is_read_and_held():
    counting = Counting(WINA, RotationSpec(mode="none", per_head=False), "none", summary(2))
    plain = plan_figures(maps(), counting)
    four = replace(counting, quantization=QuantizationSpec(quantizer="rtn", bits=4))
    quantized = plan_figures(maps(), four)
    assert plain.bits_held == 16
    assert plain.held == costs(shape(2), WINA, UNIFORM, context=CONTEXT, rotations=("none",)).rows[-1].bytes_held
    assert plain.bits_read == pytest.approx(16 * (1 - plain.gated))
    assert quantized.bits_held == pytest.approx(4.5, rel=0.01)
    assert quantized.bits_read == pytest.approx(4 * (1 - plain.gated) + 0.5, rel=0.02)
    assert plain.held - quantized.held == pytest.approx((16 - quantized.bits_held) / 8 * summary(2).gated_parameters)
    assert plain.read - quantized.read > 0
    unknown = plan_figures(maps(), replace(counting, summary=None))
    assert (unknown.read, unknown.bits_held) == (None, None)
    assert unknown.reasons["held"]


def test_curves_are_linear_between_their_points_and_end_where_they_end():
    stats = [*curve("q", (0.3, 0.1), (0.5, 0.3)), *curve("k", (0.3, 0.1), (0.5, 0.3))]
    curves = CellCurves.of(LAYOUT, stats, at_zero=0.0)
    targets = np.full((2, 7), 0.4)
    targets[0, 1] = 0.95
    read = curves.at(targets)
    assert read[0, 0] == pytest.approx(0.2)
    assert math.isnan(read[0, 1]), "never extrapolated"
    assert math.isnan(read[1, 0]), "another layer has none"
    assert curves.at(np.full((2, 7), 0.15))[0, 0] == pytest.approx(0.05), "from nothing lost where nothing is dropped"
    assert CellCurves.of(LAYOUT, []) is None


def test_a_target_that_a_rounding_error_puts_on_a_curves_last_point_is_on_it():
    curves = everywhere((0.0, 0.0), (19 * 0.05 - 1e-16, 0.5))
    assert curves.at(np.full((2, 7), 0.9500000000000001))[0, 0] == pytest.approx(0.5)


def test_maps_that_depend_on_the_target_follow_it():
    cells = {
        "errors": everywhere((0.5, 0.2)),
        "energies": everywhere((0.5, 0.9), at_zero=1.0),
        "thresholds": everywhere((0.0, -1.0), (0.5, 3.0)),
        "divergences": everywhere((0.5, 0.1)),
    }
    plan = UNIFORM.with_cells({(0, 0): 0.25, (0, 1): 0.0})
    shown = maps(plan, **cells)
    assert shown.table("predicted")[0, :2] == pytest.approx([0.1, 0.0])
    assert shown.table("kept")[0, :2] == pytest.approx([0.95, 1.0])
    assert shown.table("threshold")[0, 0] == pytest.approx(1.0)
    assert shown.table("kl")[0, 0] == pytest.approx(0.05**2), "square roots are linear"


@pytest.mark.parametrize("mode", ["global", "per_site"])
def test_sparsities_and_savings_are_those_of_the_accounting(mode):
    found = figures(maps(), mode=mode)
    row = costs(shape(2), WINA, UNIFORM, context=CONTEXT, rotations=(mode,)).rows[-1]
    assert (found.gated, found.net) == (row.gated_sparsity, row.net_sparsity)
    assert (found.gated_saving, found.net_saving) == (row.gated_flops_saving, row.net_flops_saving)
    assert found.net < found.gated


def test_predicted_error_is_a_mean_and_predicted_kl_a_sum():
    found = figures(maps(errors=everywhere((0.8, 0.8)), divergences=everywhere((0.8, 0.8))))
    assert found.predicted == pytest.approx(0.4)
    assert found.kl == pytest.approx(14 * 0.4**2)


@pytest.mark.parametrize("budget", PAPER_BUDGETS)
@pytest.mark.parametrize("make", [uniform, dense_ends, rising])
def test_presets_meet_the_budget(make, budget):
    plan = make(layout(8), WINA, budget)
    assert plan.budget == pytest.approx(budget, abs=1e-6)


def test_presets_leave_alone_what_the_method_does_not_gate():
    table = np.asarray(uniform(layout(8), CATS, 0.3).sparsity)
    assert (table[:, [PROJECTIONS.index(name) for name in "qkvo"]] == 0).all()
    with pytest.raises(WinaError, match="gates none of q, k, v, o; choose another preset or method"):
        attention_only(layout(8), CATS, 0.5)


def test_a_stored_map_is_put_in_the_layouts_order_with_gaps():
    stored = RunLayerMap("fidelity", ("down", "q"), ((0.7, 0.1), (0.8, 0.2)))
    table = measured_table(layout(3), stored)
    assert table[:2, PROJECTIONS.index("q")].tolist() == [0.1, 0.2]
    assert table[:2, PROJECTIONS.index("down")].tolist() == [0.7, 0.8]
    assert np.isnan(table[2]).all()
    assert np.isnan(table[:, PROJECTIONS.index("k")]).all()
    assert np.isnan(measured_table(layout(3), None)).all()
