"""Blocks of targets from and to spreadsheets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_app.heatmap.clipboard import FRACTIONS, MAX_CHARACTERS, copied_text, paste, read_block
from wina_app.heatmap.selection import Selection
from wina_app.plots.colour_maps import ColourScale, percent

from wina_core.errors import WinaError

NAMES = ("q", "k", "v")
TABLE = Selection(4, 3)


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("50\t62.5", [[0.5, 0.625]]),
        ("50\t62,5", [[0.5, 0.625]]),
        ("50%\t62.50 %", [[0.5, 0.625]]),
        ("0.5\t0,625", [[0.5, 0.625]]),
        ("0.5%\t0.25%", [[0.005, 0.0025]]),
        ("1\t0.5", [[0.01, 0.005]]),
        ("50%\t0.25", [[0.5, 0.25]]),
        ("50\t\r\n\t60\r\n", [[0.5, None], [None, 0.6]]),
        ("50\n60\t70", [[0.5, None], [0.6, 0.7]]),
        ('"50"\t60', [[0.5, 0.6]]),
        ("0", [[0.0]]),
        ("32.3", [[0.323]]),
        ("q\tk\n1\t2", [[0.01, 0.02]]),
        ("layer\tk\tv\n7\t10\t20\n8\t30\t40", [[0.1, 0.2], [0.3, 0.4]]),
        ("\tK\n0\t10\n1\t20", [[0.1], [0.2]]),
    ],
)
def test_blocks_are_read(text, block):
    assert read_block(text, NAMES, FRACTIONS) == block


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("50\tabc", 'row 1, column 2 of the block is "abc"'),
        ("layer\tq\n0\t50\n1\t100", 'row 3, column 2 of the block is "100"'),
        ("50\n-1", 'row 2, column 1 of the block is "-1"'),
        ("nan", 'column 1 of the block is "nan"'),
        ("100%", '"100%"'),
        ("x" * 200, "x…"),
    ],
)
def test_a_bad_cell_is_named_in_one_sentence(text, where):
    with pytest.raises(WinaError) as refused:
        read_block(text, NAMES, FRACTIONS)
    assert where in str(refused.value)
    assert "Nothing was pasted" in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("text", ["", " \n\t\n", "q\tk\tv"])
def test_a_clipboard_without_targets_is_told(text):
    with pytest.raises(WinaError, match="no targets"):
        read_block(text, NAMES, FRACTIONS)


def test_a_clipboard_that_is_no_plan_by_far_is_not_read():
    with pytest.raises(WinaError, match="too many"):
        read_block("5\t" * MAX_CHARACTERS, NAMES, FRACTIONS)


def test_one_cell_fills_what_is_selected_and_nothing_else():
    selection = TABLE.click((0, 0)).click((2, 2), toggle=True)
    assert paste("50", selection, NAMES, FRACTIONS).values == {(0, 0): 0.5, (2, 2): 0.5}


def test_a_block_is_repeated_where_it_fits_a_whole_number_of_times():
    pasted = paste("10\n20", TABLE.click((0, 1)).drag_to((3, 2)), NAMES, FRACTIONS)
    assert pasted.values == {(row, column): (0.1, 0.2)[row % 2] for row in range(4) for column in (1, 2)}
    assert pasted.remark == ""


def test_another_block_starts_at_the_corner_and_ends_with_the_table():
    pasted = paste("10\t20\t30\n40\t50\t60", TABLE.click((3, 1)), NAMES, FRACTIONS)
    assert pasted.values == {(3, 1): 0.1, (3, 2): 0.2}
    assert "4 cells of the block beyond the table" in pasted.remark
    smaller = paste("10\n20", TABLE.click((0, 0)).drag_to((2, 0)), NAMES, FRACTIONS)
    assert smaller.values == {(0, 0): 0.1, (1, 0): 0.2}, "three rows are no whole number of two"


def test_nothing_selected_is_nowhere_to_paste():
    with pytest.raises(WinaError, match="Nothing is selected"):
        paste("50", TABLE, NAMES, FRACTIONS)


SCALE = ColourScale("Target sparsity", "%", 0.0, 1.0, percent)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(0.0, 0.999), min_size=3, max_size=3), min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([None, 3, 5]),
)
def test_what_is_copied_comes_back_as_it_was(values, headings, digits):
    table = np.array(values) if digits is None else np.round(values, digits)
    chosen = TABLE.click((1, 0)).drag_to((3, 1))
    text = copied_text([*"0123"], NAMES, table, SCALE, chosen.cells, headings)
    back = paste(text, TABLE.click((1, 0)), NAMES, FRACTIONS)
    assert back.values.keys() == chosen.cells
    for cell, value in back.values.items():
        assert value == (pytest.approx(table[cell], abs=1e-11) if digits is None else table[cell])
