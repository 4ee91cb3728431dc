"""Requests between the two confined processes: an operation on values, then its result or its exception.

Both sides have the same means. While one waits for a result it serves the other's requests, so that functions among the
arguments can be called back. After a request, arguments that can change get the content that the other side gave them.
"""

import os
from collections.abc import Callable
from typing import Any

from .values import BrokenMessageError, Channel, Decoder, Encoder


class ConfinedPeer:
    """One side's means of requesting and serving; its subclasses say how objects and exceptions cross."""

    operations: dict[str, Callable[..., Any]]

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._shared: list[Any] = []
        self._numbers: dict[int, int] = {}

    def refer(self, x: Any) -> list[Any]:
        """Return the JSON of an object that is no plain data, or raise TypeError."""
        raise NotImplementedError

    def resolve(self, kind: str, *content: Any) -> Any:
        """Return the object for the JSON of one that is no plain data."""
        raise NotImplementedError

    def describe(self, error: Exception) -> list[Any]:
        """Return the JSON of an exception."""
        raise NotImplementedError

    def exception(self, kinds: list[Any], arguments: list[Any]) -> Exception:
        """Return the exception for its JSON."""
        raise NotImplementedError

    def number(self, x: Any) -> int:
        """Return the number by which the other side refers to an object of this one."""
        if id(x) not in self._numbers:
            self._numbers[id(x)] = len(self._shared)
            self._shared.append(x)
        return self._numbers[id(x)]

    def shared(self, number: int) -> Any:
        """Return the object of a number that this side has given."""
        if type(number) is not int or not 0 <= number < len(self._shared):
            raise BrokenMessageError
        return self._shared[number]

    def ask(self, operation: str, *arguments: Any, **named: Any) -> Any:
        """Return the other side's result, or raise its exception."""
        # Random, so that no result can be sent before its request.
        mark = os.urandom(8).hex()
        encoder = Encoder(self.refer)
        root = encoder.value((arguments, tuple(named.items())))
        self._channel.send([mark, "ask", operation, root, encoder.states()])
        return self.serve(mark, encoder.containers)

    def serve(self, mark: str = "", sent: list[Any] | None = None) -> Any:
        """Serve requests until the result of the request `mark` comes; without one until the other side ends."""
        while True:
            message = self._channel.receive()
            match message:
                case [str(other), "ask", str(operation), root, list(states)]:
                    self._reply(other, self._answer(operation, root, states))
                case [other, "result", root, list(changes), list(states)] if other == mark:
                    return self._decoded(root, states, changes, sent or [])[0]
                case [other, "raise", list(kinds), list(arguments)] if other == mark:
                    raise self._decoded_exception(kinds, arguments)
                case _:
                    raise BrokenMessageError

    def _reply(self, mark: str, answer: list[Any]) -> None:
        try:
            self._channel.send([mark, *answer])
        except ValueError as error:  # the result is too large
            self._channel.send([mark, "raise", *self.describe(error)])

    def _answer(self, operation: str, root: Any, states: list[Any]) -> list[Any]:
        (arguments, named), containers = self._decoded(root, states)
        try:
            result = self.operations[operation](*arguments, **dict(named))
            encoder = Encoder(self.refer, containers)
            root = encoder.value(result)
            after = encoder.states()
            count = len(containers)
            # Arguments that the call has changed, so that the other side sees the changes.
            changes = [[at, after[at]] for at in range(count) if after[at] != states[at]]
            return ["result", root, changes, after[count:]]
        except Exception as error:
            return ["raise", *self.describe(error)]

    def _decoded(self, root: Any, states: Any, changes: Any = (), existing: Any = ()) -> tuple[Any, list[Any]]:
        decoder = Decoder(self.resolve, existing)
        try:
            decoder.fill(states, changes)
            return decoder.value(root), decoder.containers
        except Exception as error:
            raise BrokenMessageError from error

    def _decoded_exception(self, kinds: list[Any], arguments: list[Any]) -> Exception:
        try:
            return self.exception(kinds, arguments)
        except Exception as error:
            raise BrokenMessageError from error
