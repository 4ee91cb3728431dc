"""The names that the tests take from the program, decided by the text of the tests alone.

A program must not replace what the tests measure with. Therefore
1. names that the tests define or import are theirs;
2. builtins are the judge's, and so are modules (`math.floor`): the judge imports them itself, if the program has them;
3. the exception is the function under test: it is an argument of a function that the tests define (`check(sum)`) or,
   in tests without any name of the program, the only builtin that they call (`assert sum(10, 15) == 6`);
4. all other names are the program's.
"""

import ast
import builtins
import symtable
import sys
from collections.abc import Iterable
from importlib.util import find_spec

ALIASES = {"np": "numpy", "pd": "pandas"}
"""Names by which tests know modules of other names."""


def names_of_program(tests: str) -> tuple[set[str], set[str]]:
    """Return (names of the program's objects, names of modules) that the tests use. Raises SyntaxError."""
    free = _free(symtable.symtable(tests, "<tests>", "exec"))
    tree = ast.parse(tests)
    nodes = list(ast.walk(tree))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    # Rule 2, then rule 4 with the first case of rule 3, whose second case is the last line.
    modules = {name for name in free & _names(node.value for node in attributes) if _is_module(name)}
    program_names = {name for name in free - modules if not hasattr(builtins, name)} | free & _tested_names(tree)
    called = free & _names(node.func for node in nodes if isinstance(node, ast.Call))
    return program_names or (called if len(called) == 1 else set()), modules - program_names


def _tested_names(tree: ast.Module) -> set[str]:
    """Return the names in calls, at the top, of functions that the tests define."""
    defined = {statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef)}
    expressions = [statement.value for statement in tree.body if isinstance(statement, ast.Expr)]
    calls = [node for node in expressions if isinstance(node, ast.Call) and _names([node.func]) & defined]
    return _names(argument for call in calls for argument in call.args)


def _names(nodes: Iterable[ast.expr]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _free(table: symtable.SymbolTable) -> set[str]:
    """Return the global names that are used here or in inner scopes and bound nowhere at the top."""
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
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
