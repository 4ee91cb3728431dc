"""Sparsity plans: budget, bounds, edits, and the model they were made for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((10, 30), (10, 30), (10, 30)))
targets = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


@st.composite
def plans(draw: st.DrawFn) -> SparsityPlan:
    """Any plan of up to 4 layers x 3 projections."""
    layers, columns = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def table(cell: st.SearchStrategy) -> tuple[tuple, ...]:  # type: ignore[type-arg]  # of whatever is drawn
        return tuple(tuple(draw(cell) for _ in range(columns)) for _ in range(layers))

    layout = PlanLayout(
        projections=tuple("qkv"[:columns]),
        parameters=table(st.integers(1, 10**10)),
    )
    return SparsityPlan(layout=layout, sparsity=table(targets), provenance="edited")


def test_the_budget_weighs_each_matrix_by_its_parameters() -> None:
    plan = SparsityPlan(layout=LAYOUT, sparsity=((0.4, 0.0), (0.4, 0.0), (0.4, 0.8)))
    assert plan.budget == pytest.approx((3 * 10 * 0.4 + 30 * 0.8) / 120, abs=1e-15)


@given(plans(), st.data())
def test_an_edit_changes_its_cells_only(plan: SparsityPlan, data: st.DataObject) -> None:
    cell = (
        data.draw(st.integers(0, plan.layout.layers - 1)),
        data.draw(st.integers(0, len(plan.layout.projections) - 1)),
    )
    value = data.draw(targets)
    edited = plan.with_cells({cell: value})
    for layer, row in enumerate(edited.sparsity):
        for column, target in enumerate(row):
            assert target == (value if (layer, column) == cell else plan.sparsity[layer][column])
    assert edited.provenance == "edited"


@pytest.mark.parametrize("value", [1.0, 1.5, -0.01, float("nan"), float("inf")])
def test_targets_outside_zero_to_one_are_refused(value: float) -> None:
    with pytest.raises(ValidationError) as caught:
        SparsityPlan.uniform(LAYOUT, 0.5).with_cells({(1, 0): value})
    assert explain(caught.value).startswith("sparsity[1][0]: it should be ")
    with pytest.raises(ValidationError):
        UniformSparsity(sparsity=value)


def test_a_plan_for_another_model_is_refused_by_name() -> None:
    other = PlanLayout(projections=("q", "down"), parameters=((10, 30), (10, 40)))
    plan = SparsityPlan.uniform(LAYOUT, 0.5)
    assert plan.for_layout(LAYOUT) is plan
    with pytest.raises(WinaError) as caught:
        plan.for_layout(other)
    assert "3 layers x (q, down) and 120 gated weights, but the loaded model has 2 layers" in str(caught.value)
    with pytest.raises(ValidationError, match="3 layers x 2 projections"):
        SparsityPlan(layout=LAYOUT, sparsity=((0.1, 0.1),))
