"""Names say what a thing is: words that fit everything stay rare, and a class has a name of its own."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [file for room in ("app", "wina_core", "kernels", "packaging") for file in (ROOT / room).rglob("*.py")]
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in SOURCES}
VAGUE = """
found each own known kept wanted shown asked part parts said there here place places given taken begun meant told
left_over rest_of others one_of what which whose these those thing things stuff
"""
MOST_VAGUE = 4
"""Of 1,000 bound names; the places that are left have no better word, as a place of a sparsity plan."""


def bound_names(tree: ast.AST) -> list[str]:
    """Return the names of variables, attributes of loops and parameters that a module binds."""
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return names + [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]


def test_few_names_say_nothing() -> None:
    names = [(file, name) for file, tree in TREES.items() for name in bound_names(tree)]
    vague = Counter(file.relative_to(ROOT) for file, name in names if name.strip("_") in VAGUE.split())
    assert len(names) > 10_000
    assert vague.total() <= MOST_VAGUE * len(names) / 1000, vague.most_common(10)


def test_no_class_name_occurs_twice() -> None:
    classes = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in classes.items() if count > 1] == []
