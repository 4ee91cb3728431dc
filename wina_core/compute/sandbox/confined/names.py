"""The names that the tests take from the program, decided by the text of the tests alone.

A program must not replace what the tests measure with. Therefore
1. names that the tests define or import are theirs;
2. builtins are the judge's, and so are modules (`math.floor`): the judge imports them itself, if the program has them;
3. the exception is the function under test: it is an argument of a function that the tests define (`check(sum)`) or,
   in tests without any name of the program, the only builtin that they call (`assert sum(10, 15) == 6`);
4. all other names are the program's; but beside a function under test that is named (`check(find_zero)`) they are
   helpers of the prompt (`poly`), and come from a process that runs only the text before that function.
"""

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Iterable
from importlib.util import find_spec

ALIASES = {"np": "numpy", "pd": "pandas"}
"""Names by which tests know modules of other names."""


def wanted(tests: str) -> tuple[set[str], set[str]]:
    """Return (names of the program's objects, names of modules) that the tests use. Raises SyntaxError."""
    free = _free(symtable.symtable(tests, "<tests>", "exec"))
    tree = ast.parse(tests)
    nodes = list(ast.walk(tree))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    modules = {name for name in free & _names(each.value for each in attributes) if _is_module(name)}
    own = {name for name in free - modules if not hasattr(builtins, name)} | free & _given(tree)
    called = free & _names(each.func for each in nodes if isinstance(each, ast.Call))
    return own or (called if len(called) == 1 else set()), modules - own


def helpers(tests: str, program: str) -> tuple[set[str], str]:
    """Return (names of the prompt's helpers that the tests use, text of the program before the function under test).

    A model writes behind the function's first line, so that it cannot change this text. Both are empty without helpers.
    Raises SyntaxError for tests that are no Python.
    """
    own, _ = wanted(tests)
    given = _given(ast.parse(tests)) & own
    found = re.search(rf"^(?:async +)?def +(?:{'|'.join(map(re.escape, given))})\b", program, re.MULTILINE)
    if not given or found is None or not own - given:
        return set(), ""
    text = program[: found.start()]
    defined = symtable.symtable(text, "<program>", "exec")
    bound = {each.get_name() for each in defined.get_symbols() if each.is_assigned() or each.is_namespace()}
    return (own - given) & bound, text


def _given(tree: ast.Module) -> set[str]:
    """Return the names in calls, at the top, of functions that the tests define."""
    defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
    statements = [each.value for each in tree.body if isinstance(each, ast.Expr)]
    calls = [each for each in statements if isinstance(each, ast.Call) and _names([each.func]) & defined]
    return _names(argument for call in calls for argument in call.args)


def _names(nodes: Iterable[ast.expr]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _free(table: symtable.SymbolTable) -> set[str]:
    """Return the global names that are used here or in inner scopes and bound nowhere at the top."""
    bound = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    used: set[str] = set()
    scopes = [table]
    while scopes:
        scope = scopes.pop()
        top = scope is table
        used |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (top or s.is_global())}
        scopes += scope.get_children()
    return used - bound


def _is_module(name: str) -> bool:
    try:
        return name in ALIASES or name in sys.stdlib_module_names or find_spec(name) is not None
    except (ImportError, ValueError):
        return False
