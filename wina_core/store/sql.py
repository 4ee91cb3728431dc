"""SQL that databases spell differently: types of columns, checked when they are read, and lists of any length."""

import json
import math
from collections.abc import Iterable
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Boolean, ColumnElement, Dialect, Double, Integer, Text, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeDecorator, TypeEngine


class CellError(ValueError):
    """A stored value of another type than its column's: SQLite keeps whatever a foreign program writes."""


_T = TypeVar("_T")
_NUMBERS, _INTEGERS = frozenset({float, int}), frozenset({int})


def _checked(value: _T, kinds: frozenset[type]) -> _T:
    if value is not None and type(value) not in kinds:
        raise CellError(repr(value))
    return value


class Real(TypeDecorator[float]):
    """A float, checked when it is read. NaN is stored as NULL, as SQLite does by itself."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        # As SQLite does by itself; PostgreSQL would store NaN.
        return None if value is None or math.isnan(value) else value

    def process_result_value(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return _checked(value, _NUMBERS)


class Number(Real):
    """A float that is always known. SQLite turns NaN into NULL, so NULL is read back as NaN; infinities are kept."""

    cache_ok = True

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:  # noqa: ARG002
        return math.nan if value is None else _checked(value, _NUMBERS)


class Whole(TypeDecorator[int]):
    """An integer of 64 bits, checked when it is read."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[int]:
        # SQLite numbers the rows of a key of just this type, which has 64 bits there.
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return _checked(value, _INTEGERS)


def kinds_of(column: Any) -> frozenset[type]:
    """Return the types of the values that a column can hold, as the drivers give them."""
    # SQLite has no booleans, only 0 and 1.
    kinds = {Number: _NUMBERS, Real: _NUMBERS, Whole: _INTEGERS, Boolean: _INTEGERS | {bool}}
    column_kinds = kinds.get(type(column.type), frozenset({str}))
    return column_kinds | {type(None)} if getattr(column, "nullable", False) else column_kinds  # an expression has none


# ---- membership in a list: databases bound the number of values in a statement ---------------------------------------


def in_list(column: Any, texts: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a column of texts is among these; they are sent to the database as one value."""
    array = bindparam(None, json.dumps(list(texts)), Text(), unique=True)
    condition: ColumnElement[bool] = column.in_(select(_Texts(array).table_valued("value").c.value))
    return condition


class _Texts(GenericFunction[str]):
    """The texts of a JSON array, one a row."""

    type = Text()
    inherit_cache = True
    name = "wina_texts"


@compiles(_Texts, "sqlite")
def _on_sqlite(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Texts, "postgresql")
def _on_postgres(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"
