"""Options of a run that apply to a method, for the registered methods and for those to come."""

import pytest
from wina_app.shared.method_choices import Gating, has_low_rank, shares_masks

from wina_core.specs import DENSE, MethodSpec, methods
from wina_core.specs.methods import Method


class Lately(Method):
    """Scores o by its column norms and adds a low-rank part."""

    name = "lately"
    default_rho = 0.8

    def norms_of(self, name, block, *, fused, rho=None):  # noqa: ARG002 - the base's
        return (name,) if name == "o" else ()


ALL = Gating(selection="threshold", masks="shared", correction="mean", rho=0.7)


@pytest.mark.parametrize(
    ("name", "shares", "splits"),
    [("dense", False, False), ("teal", False, False), ("wina", True, False), ("cats", False, False),
     ("rsparse", False, True), ("scap", False, False), ("larosa", False, False), ("lately", True, True)],
)  # fmt: skip
def test_masks_and_rho_reach_the_methods_that_they_mean_something_to(name, shares, splits, monkeypatch):
    monkeypatch.setitem(methods.METHODS, "lately", Lately)
    method = MethodSpec(name=name)
    assert (shares_masks(method), has_low_rank(method)) == (shares, splits)
    if method == DENSE:
        assert ALL.of(method) == DENSE
        return
    expected = {"masks": "shared" if shares else "separate", "rho": 0.7 if splits else None}
    assert ALL.of(method) == MethodSpec(name=name, selection="threshold", correction="mean", **expected)


@pytest.mark.parametrize("name", ["wina", "rsparse"])
def test_released_code_shares_no_masks(name):
    released = MethodSpec(name=name, variant="as_released")
    assert Gating(masks="shared").of(released) == released
