"""Stored completions of prompts."""

from collections.abc import Collection
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Select, delete, desc, func, or_, select
from sqlalchemy.orm import aliased

from wina_core.errors import WinaError
from wina_core.records.completions import (
    CompletionRecord,
    CompletionRow,
    CompletionToken,
    StoredCompletion,
    decoding_speed,
    joined_text,
    mean_divergence,
    prefill,
)
from wina_core.specs import DENSE
from wina_core.specs.generation import CompletionPoint
from wina_core.store.columns import environment_of
from wina_core.store.run_reader import RunReader
from wina_core.store.tables import CompletionTable, EnvironmentTable, ModelTable

_TOKENS = TypeAdapter(tuple[CompletionToken, ...])
_SHOWN = 200
"""Characters of a prompt in a list."""


def columns_of(record: CompletionRecord) -> dict[str, Any]:
    """Return the columns of `tables.CompletionTable` that follow from the record."""
    point, tokens = record.point, record.tokens
    speed, first = decoding_speed(tokens), prefill(tokens)
    return {
        "hash": point.content_hash(),
        "dense_hash": point.dense.content_hash(),
        "spec": point.model_dump_json(),
        "prompt": point.prompt,
        "text": joined_text(tokens),
        "tokens": _TOKENS.dump_json(tokens).decode(),
        "token_count": len(tokens),
        "prompt_tokens": record.prompt_tokens,
        "end": record.end,
        "configuration_label": point.configuration.label,
        "method": point.configuration.method.name,
        "sparsity": record.sparsity,
        "first_token_seconds": None if first is None else first[1],
        "tokens_per_second": speed.rate,
        "dense_tokens_per_second": speed.dense_rate,
        "speedup": speed.speedup,
        "divergence": mean_divergence(tokens),
    }


def is_superseded(connection: Connection, row: dict[str, Any]) -> bool:
    """Return whether a row is of a stopped completion, and a whole one of the same point is stored."""
    if row["end"] != "stopped":
        return False
    same = (CompletionTable.hash == row["hash"]) & (CompletionTable.environment_id == row["environment_id"])
    whole = select(CompletionTable.id).where(same, CompletionTable.end != "stopped")
    return connection.scalar(whole) is not None


class CompletionReader(RunReader):
    """Queries on completions."""

    def completions(self, search: str = "", limit: int = 200, *, pairs: bool = False) -> list[CompletionRow]:
        """Return completions with every word of a search in prompt, text, configuration or model, the latest first.

        With `pairs`, dense completions are left out if a gated one of their prompt is stored.
        """
        query = (
            select(
                CompletionTable.id,
                ModelTable.label,
                func.substr(CompletionTable.prompt, 1, _SHOWN),
                CompletionTable.configuration_label,
                CompletionTable.method,
                CompletionTable.token_count,
                CompletionTable.end,
                CompletionTable.sparsity,
                CompletionTable.first_token_seconds,
                CompletionTable.tokens_per_second,
                CompletionTable.dense_tokens_per_second,
                CompletionTable.speedup,
                CompletionTable.divergence,
                CompletionTable.recorded,
                EnvironmentTable.hardware,
            )
            .join(ModelTable, ModelTable.id == CompletionTable.model_id)
            .outerjoin(EnvironmentTable, EnvironmentTable.id == CompletionTable.environment_id)
            .order_by(desc(CompletionTable.recorded), desc(CompletionTable.id))
            .limit(limit)
        )
        columns = (CompletionTable.prompt, CompletionTable.text, CompletionTable.configuration_label, ModelTable.label)
        for word in search.split():
            query = query.where(or_(*(column.icontains(word, autoescape=True) for column in columns)))
        if pairs:
            query = query.where(or_(CompletionTable.method != DENSE.name, ~_gated_beside().exists()))
        return self._rows(query, CompletionRow._make)

    def completion(self, completion: int) -> StoredCompletion:
        """Return a completion with the dense one of its prompt: of its own environment if possible, else the latest.

        Raises WinaError for an unknown id.
        """
        with self._reading() as connection:
            stored = _read(connection, CompletionTable.id == completion)
            if stored is None:
                raise WinaError(unknown_completion(completion))
            record, recorded = stored
            if record.point.configuration.is_dense:
                return StoredCompletion(completion, record, recorded, None)
            environment = (
                select(CompletionTable.environment_id).where(CompletionTable.id == completion).scalar_subquery()
            )
            dense = _read(
                connection,
                CompletionTable.hash == record.point.dense.content_hash(),
                # NULL if an environment is unknown, which PostgreSQL would put first, and SQLite last.
                desc(CompletionTable.environment_id == environment).nulls_last(),
            )
            return StoredCompletion(completion, record, recorded, dense[0] if dense else None)


def erase_completions(connection: Connection, completions: Collection[int]) -> None:
    """Delete completions, and dense ones whose last gated one was among them.

    Raises WinaError for an unknown id.
    """
    ours = CompletionTable.id.in_(completions)
    rows = connection.execute(select(CompletionTable.id, CompletionTable.dense_hash).where(ours)).all()
    if unknown := set(completions) - {row.id for row in rows}:
        raise WinaError(unknown_completion(min(unknown)))
    connection.execute(delete(CompletionTable).where(ours))
    # Executed after the first deletion: the gated completions that are left.
    remaining = select(CompletionTable.dense_hash).where(CompletionTable.method != DENSE.name)
    unpaired = CompletionTable.hash.in_({row.dense_hash for row in rows}) & CompletionTable.hash.not_in(remaining)
    connection.execute(delete(CompletionTable).where(unpaired))


def unknown_completion(completion: int) -> str:
    return f"No completion {completion} is stored; refresh the list of completions."


def _gated_beside() -> Select[Any]:
    other = aliased(CompletionTable)
    return select(other.id).where(other.dense_hash == CompletionTable.hash, other.method != DENSE.name)


def _read(
    connection: Connection, condition: ColumnElement[bool], *order: ColumnElement[Any]
) -> tuple[CompletionRecord, float] | None:
    query = (
        select(CompletionTable, EnvironmentTable.device, EnvironmentTable.hardware, EnvironmentTable.versions)
        .outerjoin(EnvironmentTable, EnvironmentTable.id == CompletionTable.environment_id)
        .where(condition)
        .order_by(*order, desc(CompletionTable.recorded))
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    record = CompletionRecord(
        point=CompletionPoint.model_validate_json(row.spec),
        environment=None if row.hardware is None else environment_of(row),
        end=row.end,
        prompt_tokens=row.prompt_tokens,
        sparsity=row.sparsity,
        tokens=_TOKENS.validate_json(row.tokens),
    )
    return record, row.recorded
