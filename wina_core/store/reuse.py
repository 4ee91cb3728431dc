"""Units that runs still miss, and equal ones that another run has stored.

Runs of different studies often differ in their lists of tasks alone, and a task added to a study must not cost the
others again. Deleted and superseded runs do not count.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, bindparam, exists, insert, select
from sqlalchemy.orm import aliased

from wina_core.jobs import PendingRun
from wina_core.specs import OWN_UNITS, RunSpec
from wina_core.specs.runs import measured_alone
from wina_core.store.tables import (
    LayerStatTable,
    MetricTable,
    ModelTable,
    RunTable,
    SampleTable,
    UnitTable,
    Whole,
    in_list,
)


class ReusableUnit(NamedTuple):
    """A stored unit that equals one that a run misses."""

    run: str
    """Content hash of the run that misses it."""
    unit: str
    stored: int
    """Id of the stored unit."""
    suits: bool
    """Whether it also serves a run with samples: it has them, or such a unit has none."""


def reusable_units(missing: Mapping[str, PendingRun], connection: Connection) -> dict[tuple[str, str], ReusableUnit]:
    """Return stored units of other runs that measured the same as units that these runs miss.

    `missing` is by the hashes of the runs, the result by hash and unit.
    """
    specs = [run.spec for run in missing.values()]
    query = (
        select(
            RunTable.hash,
            RunTable.spec,
            UnitTable.id,
            UnitTable.unit,
            exists().where(SampleTable.unit_id == UnitTable.id),
        )
        .join(RunTable, RunTable.id == UnitTable.run_id)
        .join(ModelTable, ModelTable.id == RunTable.model_id)
        .where(RunTable.deleted.is_(None), RunTable.superseded == "")
        # Equal units have equal values in these columns, which spare the parsing of most specs.
        .where(ModelTable.hash.in_({model.content_hash() for model in {spec.model for spec in specs}}))
        .where(UnitTable.unit.in_({unit for run in missing.values() for unit in run.units}))
        .where(RunTable.method_label.in_({method.label for method in {spec.method for spec in specs}}))
        .where(RunTable.target_sparsity.in_({spec.plan.budget for spec in specs}))
        .where(RunTable.rotation_label.in_({rotation.label for rotation in {spec.rotation for spec in specs}}))
        .order_by(UnitTable.id)
    )
    keys_of = {name: measured_alone(run.spec) for name, run in missing.items()}
    missing_by_key = {keys_of[name][unit]: (name, unit) for name, run in missing.items() for unit in run.units}
    reusable: dict[tuple[str, str], ReusableUnit] = {}
    for run, text, stored, unit, has_samples in connection.execute(query):
        target = missing_by_key.get(_measured(text).get(unit, ("", "")))
        if target is not None and target[0] != run:
            suits = bool(has_samples) or unit in OWN_UNITS
            best = reusable.get(target)
            if best is None or suits >= best.suits:  # the last stored, with samples if any has them
                reusable[target] = ReusableUnit(*target, stored, suits)
    return reusable


def copy_units(connection: Connection, units: Iterable[tuple[int, int]]) -> None:
    """Copy stored units to runs, with metrics, samples and layers; `units` has pairs of a unit's id and a run's."""
    pairs = [{"stored": stored, "to": run_id} for stored, run_id in units]
    if not pairs:
        return
    original, copy, to = aliased(UnitTable), aliased(UnitTable), bindparam("to", type_=Whole)
    columns = [column for column in UnitTable.__table__.columns if column.name not in ("id", "run_id")]
    rows = select(to, *columns).where(UnitTable.id == bindparam("stored"))
    connection.execute(insert(UnitTable).from_select(["run_id", *(column.name for column in columns)], rows), pairs)
    for table in (MetricTable, SampleTable, LayerStatTable):
        columns = [column for column in table.__table__.columns if column.name not in ("id", "unit_id")]
        rows = (
            select(copy.id, *columns)
            .join(original, original.id == table.unit_id)
            .join(copy, copy.unit == original.unit)
            .where(original.id == bindparam("stored"), copy.run_id == to)
        )
        connection.execute(insert(table).from_select(["unit_id", *(column.name for column in columns)], rows), pairs)


def missing_of(runs: Mapping[str, RunSpec], connection: Connection, samples: bool = False) -> dict[str, PendingRun]:
    """Return the runs that miss units, with these units, by hash. With `samples`, tasks stored without samples count
    as missing."""
    stored: dict[str, set[str]] = {}
    query = select(RunTable.hash, UnitTable.unit).join(UnitTable, UnitTable.run_id == RunTable.id)
    query = query.where(in_list(RunTable.hash, runs), RunTable.deleted.is_(None), RunTable.superseded == "")
    if samples:
        query = query.where(UnitTable.unit.in_(OWN_UNITS) | exists().where(SampleTable.unit_id == UnitTable.id))
    for name, unit in connection.execute(query):
        stored.setdefault(name, set()).add(unit)
    missing = (
        (name, run, tuple(unit for unit in run.evaluation.units if unit not in stored.get(name, ())))
        for name, run in runs.items()
    )
    return {name: PendingRun(spec=run, units=units) for name, run, units in missing if units}


def readable_spec(text: str) -> RunSpec | None:
    """Parse a stored spec; None for one of an older version that is invalid by now."""
    try:
        return RunSpec.model_validate_json(text)
    except ValidationError:
        return None


@lru_cache(maxsize=20_000)  # a cache with fewer entries than runs would be refilled at every reading
def _measured(text: str) -> Mapping[str, tuple[str, str]]:
    spec = readable_spec(text)
    return {} if spec is None else measured_alone(spec)
