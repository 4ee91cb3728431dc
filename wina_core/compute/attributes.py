"""Attributes of an object for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def attributes(owner: object, **values: Any) -> Iterator[None]:
    """Give an object, a module or a class other attributes within the block, and its own ones after it."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)
