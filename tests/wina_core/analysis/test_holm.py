"""Holm's correction against numbers worked out by hand and against what defines it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.analysis.statistics import holm, holm_by_reference

ps = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


@given(ps)
def test_it_refuses_what_the_step_down_procedure_refuses(p_values):
    order, refused = sorted(range(len(p_values)), key=p_values.__getitem__), set()
    for rank, index in enumerate(order):
        if p_values[index] * (len(p_values) - rank) > 0.05:
            break
        refused.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= 0.05} == refused


@given(ps)
def test_no_p_becomes_smaller_or_exceeds_one(p_values):
    assert all(p <= corrected <= 1.0 for p, corrected in zip(p_values, holm(p_values), strict=True))


def test_runs_are_corrected_task_by_task_among_those_with_the_task_and_the_same_reference():
    runs = [{"a": 0.01, "b": 0.04}, {"a": 0.03}, {"b": 0.03, "a": 0.04}, {"a": 0.04}]
    found = holm_by_reference("xxxy", runs)
    assert found[0] == pytest.approx({"a": 0.03, "b": 0.06})
    assert found[1] == pytest.approx({"a": 0.06})
    assert found[2] == pytest.approx({"a": 0.06, "b": 0.06})
    assert found[3] == pytest.approx({"a": 0.04})
