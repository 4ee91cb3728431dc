"""Names that tests take from the program, from the tests' text alone."""

import pytest

from wina_core.compute.sandbox.confined.names import names_of_program

CHECK = "def check(candidate):\n    assert all(candidate(i) == abs(i) for i in range(3))\n"


@pytest.mark.parametrize(
    ("tests", "program_names", "modules"),
    [
        ("assert add(2, 3) == 5", {"add"}, set()),
        ("assert set(f(1)) == set([1])", {"f"}, set()),
        (f"{CHECK}check(f)", {"f"}, set()),
        (f"{CHECK}check(sum)", {"sum"}, set()),
        ("assert sum(10, 15) == 6", {"sum"}, set()),
        ("assert sorted(sum(10, 15)) == [6]", set(), set()),
        ("assert math.isclose(f(1), 2)", {"f"}, {"math"}),
        ("assert np.allclose(f(1), 2)", {"f"}, {"np"}),
        ("import math\nfrom x import y as z\nassert math.isclose(z(f(1)), 2)", {"f"}, set()),
        ("assert height(root) == 3 and root.left", {"height", "root"}, set()),
        ("def near(a, b):\n    return abs(a - b) < eps\nassert near(f(1), 2)", {"f", "eps"}, set()),
        ("assert copy([1]) == [1]", {"copy"}, set()),
        ("try:\n    f()\nexcept Odd as error:\n    assert str(error)", {"f", "Odd"}, set()),
    ],
)
def test_names(tests, program_names, modules):
    assert names_of_program(tests) == (program_names, modules)
