"""The judge's stand-ins for objects of the program, which never leave its process."""

from collections.abc import Callable
from typing import Any

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
