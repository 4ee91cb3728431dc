"""Rounding by the standard error."""

import math

import numpy as np
import pytest

from wina_core.analysis.results.measures import decimals_of, error_at, fixed_texts, value_text, with_error


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (0.7134567, 0.0163, "0.713 ± 0.016"),
        (0.7134567, 0.00163, "0.7135 ± 0.0016"),
        (12.3456, 1.234, "12.3 ± 1.2"),
        (1234.5, 123.4, "1234 ± 123"),
        (-0.0001, 0.02, "0.000 ± 0.020"),
        (0.0123456, None, "0.01235"),
        (1.5e-9, None, "1.5e−09"),
        (24000.0, None, "24000"),
        (0.5, 0.0, "0.5000 ± 0.0000"),
        (math.inf, None, "inf"),
        (math.nan, None, "nan"),
    ],
)
def test_a_value_has_the_digits_that_its_error_leaves(value: float, stderr: float | None, text: str) -> None:
    assert with_error(value, stderr) == text


def test_a_column_has_one_number_of_decimals() -> None:
    values, stderrs = np.array([0.5, 0.25, 0.125]), np.array([0.016, 0.012, 0.0004])
    assert decimals_of(values, stderrs) == 3
    assert with_error(0.125, 0.0004, 3) == "0.125 ± 0.0004"
    assert decimals_of(values, np.full(3, np.nan)) == 4


@pytest.mark.parametrize("decimals", [0, 2, 5])
def test_many_numbers_are_formatted_as_one_by_one(decimals: int) -> None:
    numbers = np.array([0.0, -0.0, 0.004, 0.01, 0.95, 1.0, 12.345, -3.2, -0.001, 1e9, 2e12, math.inf, math.nan])
    alike = np.full(len(numbers), decimals, np.int8)
    for stderr in (None, 0.5):
        texts = [value_text(number, decimals, stderr) for number in numbers.tolist()]
        assert fixed_texts(numbers, alike, 1, texts.__getitem__) == texts
    errors = np.abs(numbers)
    texts = [error_at(error, decimals) for error in errors.tolist()]
    assert fixed_texts(errors, alike, 0, texts.__getitem__) == texts
    assert fixed_texts(np.array([25.5]), np.array([decimals], np.int8), 1, {}.__getitem__) == [f"{25.5:.{decimals}f}"]
