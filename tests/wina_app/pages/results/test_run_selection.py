"""The selected runs that table and plots share: their order, and that nothing is told twice."""

import pytest
from wina_app.pages.results.runs import RunSelection

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture
def selection():
    return RunSelection()


@pytest.fixture
def told(selection):
    found = []
    selection.changed.connect(lambda: found.append(selection.runs))
    return found


def test_runs_keep_the_order_in_which_they_were_selected(selection):
    selection.select(["b"])
    selection.select(["a", "b", "c"])
    assert selection.runs == ("b", "a", "c"), "the first one stays the reference"
    selection.select(["c", "a"])
    assert selection.runs == ("a", "c")


def test_the_same_selection_in_another_order_is_no_change(selection, told):
    selection.select(["a", "b"])
    selection.select(["b", "a", "b"])
    assert told == [("a", "b")]


def test_an_answer_to_a_change_does_not_go_round_in_a_circle(selection, told):
    other = RunSelection()
    selection.changed.connect(lambda: other.select(selection.runs))
    other.changed.connect(lambda: selection.select(other.runs))
    selection.select(["a", "b"])
    assert other.runs == ("a", "b")
    assert told == [("a", "b")]


def test_toggling_adds_and_takes_away(selection):
    selection.select(["a"])
    selection.toggle(["b", "c"])
    assert selection.runs == ("a", "b", "c")
    selection.toggle(["a", "d"])
    assert selection.runs == ("a", "b", "c", "d"), "not all of them were selected"
    selection.toggle(["a", "c"])
    assert selection.runs == ("b", "d")


def test_another_run_becomes_the_reference(selection, told):
    selection.select(["a", "b", "c"])
    selection.make_reference("c")
    assert selection.runs == ("c", "a", "b")
    selection.make_reference("unknown")
    assert len(told) == 2


def test_runs_that_are_gone_are_forgotten(selection, told):
    selection.select(["a", "b"])
    selection.retain({"b", "x"})
    selection.retain({"b"})
    assert told == [("a", "b"), ("b",)]
