"""What runs still miss, and what of it another run has stored already: runs of different studies often differ in their
lists of tasks alone, and a task added to a study must not cost the others again."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, exists, insert, literal, select

from wina_core.engine.protocol import PendingRun
from wina_core.measurements import measured_alone
from wina_core.run_labels import sparsity_of
from wina_core.specs import OWN_UNITS, RunSpec
from wina_core.store.tables import LayerStat, Metric, Model, Run, Sample, Unit


class Twin(NamedTuple):
    """A stored unit that is what a run misses."""

    run: str
    """Content hash of the run that misses it."""
    unit: str
    stored: int
    """Id of the stored unit."""
    suits: bool
    """Also where samples are asked for: it has them, or there are none of such a unit."""


def twins(runs: Iterable[RunSpec], connection: Connection) -> list[Twin]:
    """Stored units of other runs that measured, one by one, exactly what these runs measure."""
    wanted = {measured_alone(run, unit): (run, unit) for run in runs for unit in run.evaluation.units}
    names = [run.content_hash() for run, _ in wanted.values()]
    missing = {key: (name, unit) for (key, (_, unit)), name in zip(wanted.items(), names, strict=True)}
    models = {run.model.content_hash() for run, _ in wanted.values()}
    query = (
        select(Run.hash, Run.spec, Unit.id, Unit.unit, exists().where(Sample.unit_id == Unit.id))
        .join(Run, Run.id == Unit.run_id)
        .join(Model, Model.id == Run.model_id)
        .where(Model.hash.in_(models), Unit.unit.in_({unit for _, unit in wanted.values()}))
        .where(Run.method_label.in_({run.method.label for run, _ in wanted.values()}))
        .where(Run.target_sparsity.in_({sparsity_of(run) for run, _ in wanted.values()}))
        .where(Run.rotation_label.in_({run.rotation.label for run, _ in wanted.values()}))
        .order_by(Unit.id)
    )
    found: dict[tuple[str, str], Twin] = {}
    for run, text, stored, unit, has_samples in connection.execute(query):
        name, _ = missing.get(_identity(text, unit), ("", ""))
        if name and name != run:
            suits = bool(has_samples) or unit in OWN_UNITS
            best = found.get((name, unit))
            if best is None or suits >= best.suits:  # the last stored, but rather one with samples
                found[name, unit] = Twin(name, unit, stored, suits)
    return list(found.values())


def take_over(connection: Connection, stored: int, run_id: int) -> None:
    """Give the run with this id a copy of a stored unit, with all that belongs to it."""
    unit = connection.execute(select(Unit.__table__).where(Unit.id == stored)).mappings().one()
    values = {name: value for name, value in unit.items() if name != "id"} | {"run_id": run_id}
    key = connection.execute(insert(Unit).values(values)).inserted_primary_key
    assert key is not None
    for table in (Metric, Sample, LayerStat):
        own = [column for column in table.__table__.columns if column.name not in ("id", "unit_id")]
        rows = select(literal(key[0]), *own).where(table.unit_id == stored)
        connection.execute(insert(table).from_select(["unit_id", *(column.name for column in own)], rows))


def missing_of(runs: Iterable[RunSpec], connection: Connection, samples: bool = False) -> list[PendingRun]:
    """Those of the runs that miss units of their own, with these; with `samples` also tasks stored without theirs."""
    wanted = {run.content_hash(): run for run in runs}
    stored: dict[str, set[str]] = {}
    query = select(Run.hash, Unit.unit).join(Unit, Unit.run_id == Run.id).where(Run.hash.in_(wanted))
    if samples:
        query = query.where(Unit.unit.in_(OWN_UNITS) | exists().where(Sample.unit_id == Unit.id))
    for name, unit in connection.execute(query):
        stored.setdefault(name, set()).add(unit)
    missing = (
        (run, tuple(unit for unit in run.evaluation.units if unit not in stored.get(name, ())))
        for name, run in wanted.items()
    )
    return [PendingRun(spec=run, units=units) for run, units in missing if units]


def readable_spec(text: str) -> RunSpec | None:
    """A stored spec; None for one of an older version that is refused by now."""
    try:
        return RunSpec.model_validate_json(text)
    except ValidationError:
        return None


@lru_cache(maxsize=50_000)
def _identity(text: str, unit: str) -> str:
    """Of a stored run's unit; empty for a spec that cannot be read."""
    spec = readable_spec(text)
    return "" if spec is None else measured_alone(spec, unit)
