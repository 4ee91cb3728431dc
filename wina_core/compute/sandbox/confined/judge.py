"""Role of the process that runs the tests: it alone gives the verdict, and it never runs the program's code.

`report` ends the process.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import names
from .peer import ConfinedPeer
from .values import SUBCLASSED, BrokenMessageError, Channel


def run(tests: str, channel: Channel, report: Callable[[str], object]) -> None:
    """Wait until the program has run to its end, run the tests on it, and report "passed" or "failed"."""
    peer = _Judge(channel, lambda: report("failed"))
    try:
        peer.begin()
        program_names, modules = names.names_of_program(tests)
        objects = peer.ask("names", *sorted(program_names))
        imported = peer.ask("modules", *sorted(modules))
        space = {"__builtins__": builtins, **_imported(modules, imported), **_only(program_names, objects)}
        exec(tests, space)
    except BaseException:
        report("failed")
    else:
        report("passed")


def _imported(modules: set[str], held: dict[str, str]) -> dict[str, Any]:
    expected = {name: names.ALIASES.get(name, name) for name in modules}
    return {name: import_module(module) for name, module in expected.items() if held.get(name) == module}


def _only(allowed: set[str], objects: dict[str, Any]) -> dict[str, Any]:
    # A hostile process may announce names that were not requested, such as builtins that the tests use.
    return {name: value for name, value in objects.items() if name in allowed}


class _Judge(ConfinedPeer):
    """The judge's side: only functions that the tests pass as arguments can be called by the program.

    Anything that the program's process may not send, and its end, is a failure at once: no test can catch it.
    """

    def __init__(self, channel: Channel, fail: Callable[[], object]) -> None:
        super().__init__(channel)
        self.operations = {"call": self._call}
        self._fail = fail
        self._handles: dict[int, Handle] = {}
        self._exceptions: dict[int, type[Exception]] = {}

    def begin(self) -> None:
        if self._channel.receive() != ["ready"]:
            raise BrokenMessageError

    def serve(self, mark: str = "", sent: list[Any] | None = None) -> Any:
        try:
            return super().serve(mark, sent)
        except BrokenMessageError:
            self._fail()
            raise

    def refer(self, x: Any) -> list[Any]:
        number = number_of(x)
        if number is not None:
            return ["yours", number]
        if callable(x) and not isinstance(x, type):
            return ["mine", self.number(x)]
        raise TypeError(f"an object of the class {type(x).__name__} of the tests cannot go to the program")

    def resolve(self, kind: str, *content: Any) -> Any:
        match (kind, *content):
            case ("mine", int(number)):
                return self._handle(number)
            case ("yours", int(number)):
                return self.shared(number)
            case ("sub", int(number), value) if type(value) in SUBCLASSED:
                return subclass_of(value, self._handle(number))
            case ("exception", list(kinds)):
                return self._class(kinds)
        raise BrokenMessageError

    def describe(self, error: Exception) -> list[Any]:
        name = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
        return [[[name, None]], [str(error)]]

    def exception(self, kinds: list[Any], arguments: list[Any]) -> Exception:
        if not all(isinstance(argument, str | int | float | None) for argument in arguments):
            raise BrokenMessageError
        kind = self._class(kinds)
        try:
            return kind(*arguments)
        except TypeError:  # it demands other arguments
            made = kind.__new__(kind)
            made.args = tuple(arguments)
            return made

    def _call(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        if id(function) not in self._numbers:
            raise TypeError("only functions among the arguments can be called")
        return function(*arguments, **named)

    def _handle(self, number: int) -> Handle:
        return self._handles.setdefault(number, Handle(self.ask, number))

    def _class(self, kinds: list[Any]) -> type[Exception]:
        """Return the builtin exception of that name, or for one of the program's a new class derived from it."""
        kind: type[Exception] = Exception
        for name, number in reversed(kinds):
            if number is None:
                builtin = getattr(builtins, name, None)
                kind = builtin if isinstance(builtin, type) and issubclass(builtin, Exception) else kind
            else:
                kind = self._exceptions.setdefault(number, type(name, (kind,), {}))
        return kind


# ---- stand-ins for objects of the program, which never leave its process ---------------------------------------------

Ask = Callable[..., Any]
_SUBCLASS_MARK = "_wina_handle"


class Handle:
    """An object of the program. It never equals plain data: two handles compare by the program's own rules.

    Operations that could see the other operand (arithmetic, `in`) are not forwarded, nor are double-underscore
    attributes, by which libraries would take an address or a buffer from it.
    """

    __slots__ = ("_handle_ask", "_handle_number")
    __array_ufunc__ = None  # NumPy leaves comparisons to this class

    def __init__(self, ask: Ask, number: int) -> None:
        object.__setattr__(self, "_handle_ask", ask)
        object.__setattr__(self, "_handle_number", number)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._handle_ask("call", self, *arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__name__":
            raise AttributeError(name)
        return self._handle_ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._handle_ask("set", self, name, value)

    def __instancecheck__(self, instance: Any) -> bool:
        return number_of(instance) is not None and self._handle_ask("isinstance", instance, self) is True


def _forward(method: str, operation: str) -> None:
    def forwarded(self: Handle, *arguments: Any) -> Any:
        return self._handle_ask(operation, self, *arguments)

    setattr(Handle, method, forwarded)


def _compare(operation: str) -> None:
    def compared(self: Handle, other: object) -> Any:
        return self._handle_ask(operation, self, other) is True if type(other) is Handle else NotImplemented

    setattr(Handle, f"__{operation}__", compared)


for _name in ("len", "iter", "next", "str", "repr", "bool", "int", "float", "hash", "index"):
    _forward(f"__{_name}__", _name)
_forward("__getitem__", "item")
_forward("__setitem__", "set item")
for _name in ("eq", "lt", "le", "gt", "ge"):
    _compare(_name)


def subclass_of(value: Any, handle: Handle) -> Any:
    """Return plain data that the program holds in a subclass: it compares as plain data and has its attributes."""
    base = type(value)
    attributes = {"__getattr__": lambda self, name: getattr(self.__dict__[_SUBCLASS_MARK], name)}
    made = type(base.__name__, (base,), attributes)(*((value.real, value.imag) if base is complex else (value,)))
    made.__dict__[_SUBCLASS_MARK] = handle
    return made


def number_of(x: Any) -> int | None:
    """Return the program's number of a handle or of an instance of a subclass; None for any other object."""
    held = x if type(x) is Handle else getattr(x, "__dict__", {}).get(_SUBCLASS_MARK)
    number: int | None = held._handle_number if type(held) is Handle else None
    return number
