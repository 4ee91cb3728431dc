"""The choice within budgets: against all choices, and its bound."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.compute.allocation.joint import GAP, Options, choose
from wina_core.errors import WinaError


@st.composite
def problems(draw) -> tuple[list[Options], dict[str, float]]:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    blocks = [
        Options(rng.random(count) * 1e-3, {"read": 16 * rng.random(count), "held": 16 * rng.random(count)})
        for count in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ]
    names = draw(st.sampled_from([("read",), ("held",), ("read", "held")]))
    return blocks, {name: float(sum(block.spent[name].mean() for block in blocks)) for name in names}


@settings(deadline=None, max_examples=60)
@given(problems())
def test_it_is_the_least_of_all_choices_within_the_budgets(problem):
    blocks, budgets = problem
    costs = []
    for chosen in product(*(range(len(block.costs)) for block in blocks)):
        pairs = list(zip(blocks, chosen, strict=True))
        spent = {name: sum(block.spent[name][option] for block, option in pairs) for name in budgets}
        if all(spent[name] <= budget + 1e-7 for name, budget in budgets.items()):
            costs.append(sum(block.costs[option] for block, option in pairs))
    if not costs:
        with pytest.raises(WinaError, match="No choice of bits and sparsities meets both budgets"):
            choose(blocks, budgets)
        return
    choice = choose(blocks, budgets)
    assert choice.cost == pytest.approx(min(costs), rel=2 * GAP, abs=1e-9)
    assert choice.bound <= min(costs) + 1e-9
    for name, budget in budgets.items():
        spent = sum(block.spent[name][option] for block, option in zip(blocks, choice.options, strict=True))
        assert spent <= budget + 1e-5


def test_a_budget_below_the_least_is_refused():
    blocks = [Options(np.zeros(2), {"read": np.array([4.0, 8.0])})]
    with pytest.raises(WinaError, match=r"The budget of 3.5 bits read is below what the choices allow, 4;"):
        choose(blocks, {"read": 3.5})
