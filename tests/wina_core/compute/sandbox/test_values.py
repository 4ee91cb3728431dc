"""Values that cross between the judge and the program: equal afterwards, of the same class, or refused."""

import collections
import datetime
import enum
import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from wina_core.compute.sandbox.confined.judge import Handle, subclass_of
from wina_core.compute.sandbox.confined.names import names_of_program
from wina_core.compute.sandbox.confined.values import BrokenMessageError, Decoder, Encoder


def refuse(*_):
    raise TypeError


def crossed(value):
    encoder = Encoder(refuse)
    return decoded(*json.loads(json.dumps([encoder.value(value), encoder.states()])))


def decoded(root, states):
    decoder = Decoder(refuse)
    decoder.fill(states)
    return decoder.value(root)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -0.0, -(2**63), 2**64, 1.5, math.inf, math.nan, 2 - 3j, "ü\udc80", b"\0", range(2, 9, 3)),
        *((1, (2,)), frozenset({1, "a"}), [[1], [2]], {(1, 2): [3], None: {4}}, bytearray(b"ab"), set()),
        *(Decimal("1.10"), Fraction(1, 3), datetime.datetime(2020, 1, 2, 3, 4), datetime.timedelta(1)),
        *(collections.Counter("aab"), collections.OrderedDict(b=1, a=2), collections.deque([1, 2])),
        *(int, list, type(None), Decimal, collections.Counter, np.float32(0.5), np.bool_(True), np.int64(3)),
    ],
    ids=lambda value: repr(type(value)),
)
def test_plain_data_cross_by_value(value):
    assert repr(crossed(value)) == repr(value)
    assert type(crossed(value)) is type(value)


def test_shared_and_cyclic_containers_stay_so():
    row: list = [0]
    twice = crossed([row, row])
    assert twice[0] is twice[1]
    row.append(row)
    assert crossed(row)[1][1][0] == 0


def test_arrays_cross_without_objects():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    array_decoded = crossed(array)
    assert (array_decoded == array).all()
    assert array_decoded.dtype == array.dtype
    with pytest.raises(TypeError):
        crossed(np.array([object()]))


def test_a_subclass_cannot_lie_by_its_methods():
    class Lying(list):
        def __iter__(self):
            return iter([7])

    class Colour(enum.IntEnum):
        RED = 1

    assert crossed(Lying([1])) == [1]
    assert Encoder(refuse).plain(Colour.RED) == 1


@pytest.mark.parametrize(
    ("root", "states"),
    [
        (["array", "O8", [1], "AAAA"], []),
        (["@", 3], []),
        (["nothing", 1], []),
        ({"a": 1}, []),
        (["set"], []),
        (["@", 0], [["frozenset", 1]]),
        (["@", 0], [["dict", [["@", 0], 1]]]),
        (["Decimal", "x"], []),
    ],
)
def test_broken_values_are_refused(root, states):
    with pytest.raises((TypeError, KeyError, IndexError, ValueError, ArithmeticError, BrokenMessageError)):
        decoded(root, states)


def test_a_container_keeps_its_kind():
    with pytest.raises(BrokenMessageError):
        Decoder(refuse, [[1]]).fill([], [(0, ["dict", [1, 2]])])


def test_a_handle_never_equals_plain_data():
    requests = []

    def ask(*request):
        requests.append(request)
        return True

    handle = Handle(ask, 0)
    for plain in (3, "a", [1], None, True, np.array([1]), np.int64(1)):
        assert np.all((handle == plain) is False or (handle == plain) == False)  # noqa: E712
        assert np.all(handle != plain)
        assert requests == []
    with pytest.raises(TypeError):
        handle - 3
    with pytest.raises(AttributeError):
        _ = handle.__array_interface__
    assert requests == []
    assert handle == Handle(ask, 1)
    assert len(requests) == 1


def test_plain_data_of_a_subclass_compare_as_plain_data_and_keep_attributes():
    handle = Handle(lambda operation, _, name: (operation, name), 0)
    for value in (3, 1.5, 2j, "a", b"a", (1, 2), frozenset({1})):
        instance = subclass_of(value, handle)
        assert instance == value
        assert instance.name == ("get", "name")


# ---- names that tests take from the program --------------------------------------------------------------------------

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
