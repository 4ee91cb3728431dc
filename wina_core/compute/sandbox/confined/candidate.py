"""Role of the process that runs the program: it computes what the judge requests and has no part in the verdict."""

import builtins
import operator
import os
import types
from collections.abc import Callable
from typing import Any

from .peer import ConfinedPeer
from .values import SUBCLASSED, Channel, Encoder


def run(program: str, channel: Channel) -> None:
    """Run the program, then serve the judge until it ends; any end of the program ends this process."""
    peer, leave = _Program(channel), os._exit  # bound before the program can replace it
    try:
        exec(program, peer.names)
        channel.send(["ready"])
        peer.serve()
    except BaseException:  # SystemExit, too: a program that exits has not finished
        leave(1)


class _Program(ConfinedPeer):
    """The program's objects: the judge gets plain data by value, and may operate on all others."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.names: dict[str, Any] = {}
        self.operations = _OPERATIONS | {"names": self._named, "modules": self._modules}

    def refer(self, x: Any) -> list[Any]:
        if isinstance(x, _JudgesFunction):
            return ["yours", x.number]
        if isinstance(x, SUBCLASSED):
            return ["sub", self.number(x), Encoder(self.refer).plain(x)]
        if isinstance(x, type) and issubclass(x, Exception):
            return ["exception", self._kinds(x)]
        return ["mine", self.number(x)]

    def resolve(self, kind: str, *content: Any) -> Any:
        return self.shared(content[0]) if kind == "yours" else _JudgesFunction(self, content[0])

    def describe(self, error: Exception) -> list[Any]:
        plain = all(type(argument) in (str, int, float, bool, type(None)) for argument in error.args)
        return [self._kinds(type(error)), list(error.args) if plain else [str(error)]]

    def exception(self, kinds: list[Any], arguments: list[Any]) -> Exception:
        made: Exception = getattr(builtins, kinds[0][0], Exception)(*arguments)
        return made

    def _kinds(self, kind: type) -> list[list[Any]]:
        """Return the classes of an exception with their numbers, which builtin ones do not have."""
        classes = [base for base in kind.__mro__ if issubclass(base, Exception)]
        return [[e.__name__, None if e.__module__ == "builtins" and hasattr(builtins, e.__name__) else self.number(e)]
                for e in classes]  # fmt: skip

    def _named(self, *names: str) -> dict[str, Any]:
        held = {name: self.names[name] for name in names if name in self.names}
        return {name: value for name, value in held.items() if not isinstance(value, types.ModuleType)}

    def _modules(self, *names: str) -> dict[str, str]:
        held = {name: self.names.get(name) for name in names}
        return {name: value.__name__ for name, value in held.items() if isinstance(value, types.ModuleType)}


class _JudgesFunction:
    """A function of the tests that the program may call."""

    def __init__(self, peer: ConfinedPeer, number: int) -> None:
        self._peer = peer
        self.number = number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._peer.ask("call", self, *arguments, **named)


def _call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    return function(*arguments, **named)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": _call,
    "get": getattr,
    "set": setattr,
    "item": operator.getitem,
    "set item": operator.setitem,
    **{operation.__name__: operation for operation in (len, iter, next, str, repr, bool, int, float, hash, isinstance)},
    **{name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge", "index")},
}
