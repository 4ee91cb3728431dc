"""Texts of the ticks of a logarithmic axis."""

import math

from wina_app.plots.axes import LogAxis


def test_thousands_are_written_out(qapp):  # noqa: ARG001 - fonts need an application
    axis = LogAxis("bottom")
    assert axis.tickStrings([math.log10(value) for value in (0.05, 3, 1000, 50_000)], 1.0, 1.0) == [
        "0.05",
        "3",
        "1000",
        "50000",
    ]
