"""Honest programs and their tests, in the forms of humaneval and mbpp."""

HONEST = {
    "one function, checked": (
        """\
from typing import List
def near(numbers: List[float], by: float) -> bool:
    return any(abs(a - b) < by for i, a in enumerate(numbers) for b in numbers[:i])
""",
        """\
METADATA = {'author': 'x'}


def check(candidate):
    assert candidate([1.0, 2.0, 2.1], 0.5) == True
    assert candidate([1.0, 2.0], 0.5) is False

check(near)
""",
    ),
    "a helper and a module of the prompt": (
        """\
import math
def value(xs, x):
    return sum(c * math.pow(x, i) for i, c in enumerate(xs))
def root(xs):
    low, high = -10.0, 10.0
    while high - low > 1e-9:
        mid = (low + high) / 2
        low, high = (mid, high) if value(xs, mid) * value(xs, high) < 0 else (low, mid)
    return low
""",
        """\
def check(candidate):
    import random
    for seed in range(5):
        xs = [random.Random(seed).random(), 1]
        assert math.fabs(value(xs, candidate(xs))) < 1e-4

check(root)
""",
    ),
    "objects of the program": (
        """\
from collections import namedtuple
from dataclasses import dataclass
Pair = namedtuple('Pair', 'a b')
def larger(p, q):
    return p if p.a > q.a else q
class Node:
    def __init__(self, data):
        self.data = data
        self.left = self.right = None
root = Node(1)
root.left = Node(2)
def height(n):
    return 1 + max(height(n.left), height(n.right)) if n else 0
@dataclass(order=True)
class P:
    x: int
def total(pairs, n):
    return P(sum(p.x for p in pairs[:n]))
""",
        """\
assert larger(Pair(1, 2), Pair(3, 4)) == (3, 4)
assert larger(Pair(1, 2), Pair(3, 4)).b == 4
assert (height(root)) == 2
root.right = Node(5)
assert root.right.data == 5
assert isinstance(root, Node)
assert total([P(1), P(2)], 2) == P(3)
assert total([P(1)], 1) != P(2)
assert total([P(1)], 0) < P(1)
assert sorted([P(2), P(1)])[0].x == 1
""",
    ),
    "in place, and functions among the arguments": (
        """\
def fill(rows, seen, counts, raw):
    rows[0].append(1); rows.reverse(); seen.add(2); counts['a'] = rows; raw[0] = 9
def keep(function, values):
    return [v for v in values if function(v)]
def twice(f):
    return lambda x: f(f(x))
""",
        """\
rows, seen, counts, raw = [[0], [5]], set(), {}, bytearray(b'ab')
first = rows[0]
assert fill(rows, seen, counts, raw) is None
assert rows == [[5], [0, 1]] and first == [0, 1]
assert rows[1] is first and seen == {2} and counts == {'a': [[5], [0, 1]]} and raw[0] == 9
assert keep(lambda v: v % 2, [1, 2, 3]) == [1, 3]
assert twice(lambda x: x + 1)(5) == 7
""",
    ),
    "generators and exceptions": (
        """\
def squares(n):
    for i in range(n):
        yield i * i
def endless():
    n = 0
    while True:
        yield n
        n += 1
class TooSmall(ValueError):
    pass
def check_size(n):
    if n < 0:
        raise TooSmall('below', n)
    return {}[n]
""",
        """\
import unittest
assert list(squares(4)) == [0, 1, 4, 9]
assert sum(squares(3)) == 5 and 9 in squares(4)
numbers = endless()
assert next(numbers) == 0 and next(numbers) == 1
for kind in (TooSmall, ValueError, Exception):
    try:
        check_size(-1)
        raise SystemExit
    except kind as error:
        assert error.args == ('below', -1)
unittest.TestCase().assertRaises(KeyError, check_size, 7)
""",
    ),
    "a function with a builtin's name": (
        """\
def sum(a, b):
    return a * b
""",
        """\
assert sum(10, 15) == 150
assert sum(2, 3) == 6
""",
    ),
    "arrays, and a program that prints": (
        """\
import numpy as np
print('started')
def scaled(values):
    print('x' * 10**6)
    return np.asarray(values) * 2.0
def first(values):
    return np.int64(values[0])
""",
        """\
assert (scaled([1, 2]) == np.array([2.0, 4.0])).all()
assert first([3]) == 3 and scaled(np.ones(2)).shape == (2,)
""",
    ),
}
