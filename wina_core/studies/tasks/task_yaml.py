"""Parser of task files: YAML in bounds, with functions as names, so that reading a file runs nothing."""

from typing import Any

import yaml

_LONGEST_NUMBER = 200
"""Characters of a number; Python takes quadratic time for long ones."""
_MOST_VALUES, _DEEPEST = 200_000, 64
"""Values and levels of a file after its aliases are expanded."""


class Function(str):
    """Name after `!function`."""

    __slots__ = ()


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C one is faster
    pass


_Loader.add_constructor("!function", lambda loader, node: Function(loader.construct_scalar(node)))


def parse(content: bytes) -> dict[str, Any]:
    """Return the mapping of a task file; ValueError for anything else, and for a file that expands beyond bounds."""
    loader = _Loader(content)
    try:
        _check_nesting(content)
        node = loader.get_single_node()
        if node is not None:
            _measure(node, {})
        value = loader.construct_document(node) if node is not None else None
    except Exception as error:  # constructors of YAML raise any
        raise ValueError(f"it is no task file ({' '.join(str(error).split())[:200]})") from error
    finally:
        loader.dispose()
    if not isinstance(value, dict):
        raise ValueError("it is no task file (it holds no mapping)")
    return value


def _check_nesting(content: bytes) -> None:
    """Raise ValueError for a file nested too deep: libyaml composes recursively and would end the process."""
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels")


def _measure(node: yaml.Node, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Return the number of values and of levels of a node, aliases expanded."""
    if id(node) in measured:
        known = measured[id(node)]
        if known is None:
            raise ValueError("a value contains itself")
        return known
    measured[id(node)] = None
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [each for pair in node.value for each in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    elif node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _LONGEST_NUMBER:
        raise ValueError(f"a number has {len(node.value):,} characters")
    sizes = [_measure(child, measured) for child in children]
    size = 1 + sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
    if size[0] > _MOST_VALUES or size[1] > _DEEPEST:
        raise ValueError(f"more than {_MOST_VALUES:,} values or {_DEEPEST} levels")
    measured[id(node)] = size
    return size
