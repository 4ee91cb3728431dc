"""Values as JSON that can execute nothing: plain data by value, everything else by a number of its owner.

Mutable containers stand in a table of a message, and values refer to them by their index, so that shared and cyclic
containers cross, and so that the owner of an argument learns its new content. Subclasses of plain types are read by the
base class's methods. Lines of a limited length carry them.
"""

import base64
import collections
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

MAX_MESSAGE_BYTES = 8 * 2**20
"""Bytes of one message; a longer one is refused by its sender and by its receiver."""


class BrokenMessageError(Exception):
    """A message that the other process may not send, or its end."""


class Channel:
    """Two pipes, one for each direction."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = os.fdopen(reads, "rb")
        self._writes = writes
        self._write = os.write  # bound now: a program may change the module

    def send(self, message: list[Any]) -> None:
        """Write a message. Raises ValueError for values too large to cross, BrokenMessageError at the other's end."""
        try:
            line = json.dumps(message).encode() + b"\n"
        except RecursionError as error:
            raise ValueError("the values are nested too deeply to cross") from error
        if len(line) > MAX_MESSAGE_BYTES:
            raise ValueError("the values are too large to cross")
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._write(self._writes, rest) :]
        except OSError as error:
            raise BrokenMessageError from error

    def receive(self) -> list[Any]:
        """Wait for a message. Raises BrokenMessageError for anything else."""
        try:
            line = self._reads.readline(MAX_MESSAGE_BYTES + 1)
            message = json.loads(line.decode("ascii")) if line.endswith(b"\n") else None
        except (ValueError, OSError, RecursionError, MemoryError) as error:
            raise BrokenMessageError from error
        if not isinstance(message, list):
            raise BrokenMessageError
        return message


_LIBRARY: dict[str, tuple[str, Callable[[Any], Sequence[Any]]]] = {
    "complex": ("builtins", lambda x: (x.real, x.imag)),
    "range": ("builtins", lambda x: (x.start, x.stop, x.step)),
    "Decimal": ("decimal", lambda x: (str(x),)),
    "Fraction": ("fractions", lambda x: (x.numerator, x.denominator)),
    "date": ("datetime", lambda x: (x.year, x.month, x.day)),
    "time": ("datetime", lambda x: (x.hour, x.minute, x.second, x.microsecond)),
    "datetime": ("datetime", lambda x: (x.year, x.month, x.day, x.hour, x.minute, x.second, x.microsecond)),
    "timedelta": ("datetime", lambda x: (x.days, x.seconds, x.microseconds)),
}
"""{name of a class: (its module, the arguments that make an equal value)}."""
_MAPPING_CLASSES: tuple[Any, ...] = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_MAPPINGS = {kind.__name__: kind for kind in _MAPPING_CLASSES}
_CONTAINERS: dict[str, Any] = _MAPPINGS | {e.__name__: e for e in (list, set, bytearray, collections.deque)}
SUBCLASSED: tuple[type, ...] = (int, float, complex, str, bytes, tuple, frozenset)
_CONTAINER_CLASSES = tuple(_CONTAINERS.values())
_TYPES = {kind.__name__: kind for kind in (*SUBCLASSED, bool, object, range, list, set, dict, bytearray)}
_TYPES |= {"NoneType": type(None)}
_NATIVE = (type(None), bool, str, float)
_DTYPE = re.compile(r"[<>|=]?[biufcSU]\d{1,5}")


class Encoder:
    """Values of one message. `refer` returns the JSON of an object that is no plain data, or raises TypeError."""

    def __init__(self, refer: Callable[[Any], list[Any]], existing: Iterable[Any] = ()) -> None:
        self.containers: list[Any] = []
        self._indices: dict[int, int] = {}
        self._refer = refer
        for container in existing:
            self._index(container)

    def value(self, x: Any) -> Any:
        """Return a value's JSON; the containers in it get an index in the table."""
        kind = type(x)
        if kind in _NATIVE:
            return x
        if kind is int:
            # Python limits the decimal digits that it converts, but not hexadecimal ones.
            return x if -(2**63) < x < 2**63 else ["int", hex(x)]
        if kind in (tuple, frozenset):
            return [kind.__name__, *map(self.value, x)]
        if kind is bytes:
            return ["bytes", x.hex()]
        if isinstance(x, _CONTAINER_CLASSES):
            return ["@", self._index(x)]
        if _is_library(kind) and not getattr(x, "tzinfo", None):
            return [kind.__name__, *map(self.value, _LIBRARY[kind.__name__][1](x))]
        if isinstance(x, type) and _plain_class(x.__name__) is x:
            return ["type", x.__name__]
        return self._array(x) or self._refer(x)

    def plain(self, x: Any) -> Any:
        """Return the JSON of the plain part of an instance of a subclass."""
        base = next(kind for kind in SUBCLASSED if isinstance(x, kind))
        return self.value(tuple(tuple.__iter__(x)) if base is tuple else _BASE_VALUES[base](x))

    def states(self) -> list[list[Any]]:
        """Return the contents of the table's containers, and of those within them."""
        states: list[list[Any]] = []
        while len(states) < len(self.containers):  # reading one adds the containers within it
            states.append(self._state(self.containers[len(states)]))
        return states

    def _index(self, x: Any) -> int:
        if id(x) not in self._indices:
            self._indices[id(x)] = len(self.containers)
            self.containers.append(x)
        return self._indices[id(x)]

    def _state(self, x: Any) -> list[Any]:
        name = next(kind.__name__ for kind in type(x).__mro__ if kind in _CONTAINER_CLASSES)
        if name in _MAPPINGS:
            return [name, *([self.value(key), self.value(value)] for key, value in _MAPPINGS[name].items(x))]
        if name == "bytearray":
            return [name, bytes(x).hex()]
        return [name, *map(self.value, _CONTAINERS[name].__iter__(x))]

    def _array(self, x: Any) -> list[Any] | None:
        numpy = sys.modules.get("numpy")
        if numpy is None or not (type(x) is numpy.ndarray or isinstance(x, numpy.generic)):
            return None
        if not _DTYPE.fullmatch(x.dtype.str):
            return None
        shape = list(x.shape) if type(x) is numpy.ndarray else None
        return ["array", x.dtype.str, shape, base64.b64encode(x.tobytes()).decode()]


class Decoder:
    """Values of one message. `resolve` returns the object for the JSON of one that is no plain data."""

    def __init__(self, resolve: Callable[..., Any], existing: Sequence[Any] = ()) -> None:
        self.containers = list(existing)
        self._resolve = resolve

    def fill(self, states: Iterable[Sequence[Any]], changes: Iterable[tuple[int, Sequence[Any]]] = ()) -> None:
        """Make the table's new containers, and give these and the changed ones their contents."""
        new = [(_CONTAINERS[state[0]](), state) for state in states]
        changed = [(self.containers[index], state) for index, state in changes]
        self.containers += [container for container, _ in new]
        for container, (name, *content) in new + changed:
            self._fill(container, name, content)

    def value(self, x: Any) -> Any:
        """Return the value of its JSON; any exception means that the message is broken."""
        if isinstance(x, dict):
            raise BrokenMessageError
        if not isinstance(x, list):
            return x
        name, *content = x
        if name == "@":
            return self.containers[content[0]]
        if name == "int":
            return int(content[0], 16)
        if name in ("tuple", "frozenset"):
            return _TYPES[name](map(self.value, content))
        if name == "bytes":
            return bytes.fromhex(content[0])
        if name in _LIBRARY:
            return _plain_class(name)(*map(self.value, content))
        if name == "type":
            return _plain_class(content[0])
        if name == "array":
            return _array(*content)
        if name == "sub":
            return self._resolve(name, content[0], self.value(content[1]))
        return self._resolve(name, *content)

    def _fill(self, container: Any, name: str, content: list[Any]) -> None:
        if not isinstance(container, _CONTAINERS[name]):
            raise BrokenMessageError
        if name in _MAPPINGS:
            pairs = [(self.value(key), self.value(value)) for key, value in content]
            container.clear()
            # Not by `update`: a Counter would count the pairs.
            for key, value in pairs:
                container[key] = value
        elif name == "bytearray":
            container[:] = bytes.fromhex(content[0])
        else:
            values = [self.value(element) for element in content]
            container.clear()
            (container.update if name == "set" else container.extend)(values)


_BASE_VALUES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: lambda x: complex(x.real, x.imag),
    str: lambda x: "".join(str.__iter__(x)),
    bytes: lambda x: bytes(bytes.__iter__(x)),
    frozenset: lambda x: frozenset(frozenset.__iter__(x)),
}


def _is_library(kind: type) -> bool:
    return kind.__name__ in _LIBRARY and kind.__module__ == _LIBRARY[kind.__name__][0]


def _plain_class(name: str) -> Any:
    held = _TYPES.get(name) or _CONTAINERS.get(name)
    return held or (getattr(import_module(_LIBRARY[name][0]), name) if name in _LIBRARY else None)


def _array(dtype: str, shape: list[int] | None, content: str) -> Any:
    if not _DTYPE.fullmatch(dtype):
        raise BrokenMessageError
    flat = import_module("numpy").frombuffer(base64.b64decode(content, validate=True), dtype)
    return flat[0] if shape is None else flat.reshape(shape).copy()
