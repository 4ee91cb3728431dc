"""Stored specs take the names of today, every run is found by today's hash of its spec, and runs that were measured
under a wrong reading of released code are superseded.

The changes to specs: greedy "as_released" is "wina_released"; what was called scap is our own variant; the thresholds
of older runs are those of the dense model; a plan's origin is no part of a hash. A superseded run keeps its numbers and
its place in its studies, but no spec has its hash, so nothing of it is reused. A run without a finished unit has no
numbers to supersede.

This reads specs by the program's own classes, so a later version of the program may refuse some. A refused spec keeps
its hash and its text; so does text that is no spec at all.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from wina_core.specs import CalibrationSpec, RotationSpec, RunSpec, Spec
from wina_core.specs.latency import DecodePoint
from wina_core.specs.renamed import has_thresholds, rename_run, rename_study
from wina_core.specs.studies import StudySpec
from wina_core.store.columns import run_columns

revision = "0006"
down_revision = "0005"

LABELS = ("rotation_label", "method_label", "arm_label", "plan_origin", "settings")
"""Columns of runs that follow from the spec, as far as its names or its calibration are in them."""
TODAY = {"arm_label": "configuration_label", "plan_origin": "plan_provenance"}
"""Today's names of such columns."""
SUPERSEDED = "superseded"
_FUSED = ("phi3", "gpt_neox")
"""Families with fused matrices, for summaries from before these said so themselves."""

_Spec = TypeVar("_Spec", bound=Spec)
_Content = dict[str, Any]


class Claim(NamedTuple):
    """A row that claims the hash of its spec."""

    id: int
    old: str
    new: str
    rank: tuple[Any, ...]
    """The row of the highest rank gets the hash."""


def upgrade() -> None:
    """Upgrade from the tables of annotations."""
    op.add_column("runs", sa.Column("superseded", sa.Text(), server_default="", nullable=False))
    connection = op.get_bind()
    fused = _fused_models(connection)
    stale = _stale_rotations(connection, fused)
    _upgrade_runs(connection, fused)
    _upgrade_studies(connection)
    _upgrade_decoding(connection, fused)
    _upgrade_calibrations(connection, stale)
    _upgrade_rotations(connection, stale)


# ---- what changes in a spec ------------------------------------------------------------------------------------------


def _renamed_label(label: str) -> str:
    """Return a label with the names of today: "scap, global" becomes "scap (own variant), global"."""
    if label.startswith("scap (") and not label.startswith("scap (as released"):
        return label.replace("scap (", "scap (own variant, ", 1)
    label = re.sub(r"^scap(?=,|$)", "scap (own variant)", label)
    return re.sub(r"^greedy \(as released(?=,|\))", "greedy (as released by WINA", label)


# ---- what is superseded ----------------------------------------------------------------------------------------------


def _reason(content: Mapping[str, Any], fused: bool) -> str:
    """Return why the numbers of an old run or timing are superseded, as a sentence; empty where they are not."""
    method, allocator = content.get("method") or {}, (content.get("plan") or {}).get("allocator") or {}
    released = method.get("variant") == "as_released"
    reasons = []
    if (allocator.get("name"), allocator.get("variant")) == ("greedy", "as_released"):
        reasons.append("the greedy search counted k and v as an eighth of q in every model")
    if released and method.get("name") == "wina" and not has_thresholds(method):
        reasons.append("top k kept n - floor(s n + 1/2) of n inputs, where the released code keeps int(n (1 - s))")
    if released and method.get("name") == "rsparse":
        reasons.append("rho was 0.95, where the released default is 1, and ranks went by the true shapes")
    if fused and _reads_part_of_fused(content.get("rotation") or {}):
        reasons.append("the rotation took k or gate alone, where the released code takes the whole fused matrix")
    if not reasons:
        return ""
    return (
        f"Superseded: the released code was read wrongly when this was measured ({'; '.join(reasons)}). "
        "Run its study again to measure it correctly."
    )


def _reads_part_of_fused(rotation: Mapping[str, Any]) -> bool:
    if rotation.get("mode", "global") == "none" or rotation.get("matrices"):
        return False
    return "k" in rotation.get("attention_basis", ()) or "gate" in rotation.get("mlp_basis", ())


def _fused_models(connection: sa.Connection) -> set[int]:
    """Return the ids of the models with fused matrices: by their own summary, or that of a model with the same files,
    for example opened with another dtype."""
    models = sa.table("models", *map(sa.column, ("id", "spec", "summary")))
    files: dict[int, str] = {}
    fused: set[str] = set()
    for model, text, summary in connection.execute(sa.select(models.c.id, models.c.spec, models.c.summary)):
        spec, told = _content(text) or {}, _content(summary) or {}
        files[model] = json.dumps([spec.get(name) for name in ("location", "revision", "fingerprint")])
        shape = told.get("shape")
        if shape["fused"] if shape else told.get("family") in _FUSED:
            fused.add(files[model])
    return {model for model, those in files.items() if those in fused}


def _stale_rotations(connection: sa.Connection, fused: set[int]) -> set[tuple[int, str]]:
    """Return the model's id and the hash of every rotation that was found from a part of a fused matrix."""
    stale = set()
    for name in ("runs", "rotations"):
        table = sa.table(name, sa.column("model_id"), sa.column("spec"))
        query = sa.select(table.c.model_id, table.c.spec).where(table.c.model_id.in_(fused))
        for model, text in connection.execute(query):
            content = _content(text) or {}
            rotation = content if name == "rotations" else content.get("rotation") or {}
            if rotation and _reads_part_of_fused(rotation) and (spec := _read(RotationSpec, rotation)):
                stale.add((model, spec.content_hash()))
    return stale


def _superseded_hash(old: str) -> str:
    """Return a hash that no spec has, 16 hex digits."""
    return hashlib.sha256(f"{SUPERSEDED} {old}".encode()).hexdigest()[:16]


def _superseded_label(label: str) -> str:
    """Return the label of a method with "superseded" among its details."""
    return f"{label[:-1]}, {SUPERSEDED})" if label.endswith(")") else f"{label} ({SUPERSEDED})"


# ---- tables ----------------------------------------------------------------------------------------------------------


def _upgrade_runs(connection: sa.Connection, fused: set[int]) -> None:
    names = ("id", "hash", "model_id", "spec", "created", "deleted", SUPERSEDED, *LABELS)
    runs, units = sa.table("runs", *map(sa.column, names)), sa.table("units", sa.column("run_id"))
    counted = sa.select(units.c.run_id, sa.func.count().label("units")).group_by(units.c.run_id)
    finished: dict[int, int] = {row.run_id: row.units for row in connection.execute(counted)}
    claims, changes = [], []
    for row in connection.execute(sa.select(runs)).mappings():
        values, count, new = dict(row), finished.get(row["id"], 0), row["hash"]
        if (content := _content(row["spec"])) is not None:
            reason = _reason(content, row["model_id"] in fused) if count else ""
            values[SUPERSEDED] = reason
            rename_run(content)
            if (spec := _read(RunSpec, content)) is not None:
                today = run_columns(spec)
                values |= {name: today[TODAY.get(name, name)] for name in ("spec", *LABELS)}
                new = today["hash"]
                if reason:  # lists keep apart what differs in its settings
                    values["settings"] = ", ".join(filter(None, (SUPERSEDED, values["settings"])))
                    new = _superseded_hash(row["hash"])
        claims.append(Claim(row["id"], row["hash"], new, (row["deleted"] is None, count, -row["created"], -row["id"])))
        changes.append((dict(row), values))
    _write(connection, runs, changes, _assign(claims))


def _upgrade_studies(connection: sa.Connection) -> None:
    studies = sa.table("studies", *map(sa.column, ("id", "hash", "spec", "saved")))
    claims, changes = [], []
    for row in connection.execute(sa.select(studies)).mappings():
        values, new = dict(row), row["hash"]
        if (content := _content(row["spec"])) is not None:
            rename_study(content)
            if (spec := _read(StudySpec, content)) is not None:
                values["spec"], new = spec.model_dump_json(), spec.content_hash()
                _rename_study_labels(connection, row["id"], spec)
        claims.append(Claim(row["id"], row["hash"], new, (row["saved"], row["id"])))
        changes.append((dict(row), values))
    _write(connection, studies, changes, _assign(claims))


def _rename_study_labels(connection: sa.Connection, study: int, spec: StudySpec) -> None:
    """Rename what a study calls its configurations and allocations, where these are not names that its author gave."""
    labels = sa.table("study_labels", *map(sa.column, ("id", "study_id", "arm", "allocation")))
    given = tuple(arm.name for arm in spec.configurations if arm.name)
    changes = []
    for row in connection.execute(sa.select(labels).where(labels.c.study_id == study)).mappings():
        arm = row["arm"] if row["arm"].startswith(given) else _renamed_label(row["arm"])
        changes.append((dict(row), dict(row) | {"arm": arm, "allocation": _renamed_label(row["allocation"])}))
    _write(connection, labels, changes)


def _upgrade_decoding(connection: sa.Connection, fused: set[int]) -> None:
    names = ("id", "hash", "environment_id", "model_id", "spec", "method_label")
    decoding = sa.table("decoding", *map(sa.column, names))
    claims: dict[int, list[Claim]] = {}
    changes = []
    for row in connection.execute(sa.select(decoding)).mappings():
        values, new = dict(row), row["hash"]
        if (content := _content(row["spec"])) is not None:
            reason = _reason(content, row["model_id"] in fused)
            rename_run(content)
            if (spec := _read(DecodePoint, content)) is not None:
                values["spec"], values["method_label"] = spec.model_dump_json(), spec.method.label
                new = _superseded_hash(row["hash"]) if reason else spec.content_hash()
            if reason:
                values["method_label"] = _superseded_label(values["method_label"])
        claims.setdefault(row["environment_id"], []).append(Claim(row["id"], row["hash"], new, (row["id"],)))
        changes.append((dict(row), values))
    hashes = {row: name for each in claims.values() for row, name in _assign(each).items()}
    _write(connection, decoding, changes, hashes)


def _upgrade_calibrations(connection: sa.Connection, stale: set[tuple[int, str]]) -> None:
    """Rename methods, put what was measured under a wrong reading under a label that no method has, and hash the spec
    anew: what was the usual text is not any more."""
    names = ("id", "model_id", "rotation_hash", "method_label", "hash", "spec")
    calibrations = sa.table("calibrations", *map(sa.column, names))
    hashes: dict[int, str] = {}
    changes = []
    for row in connection.execute(sa.select(calibrations)).mappings():
        label = _renamed_label(row["method_label"])
        if label.startswith("rsparse (as released") or (row["model_id"], row["rotation_hash"]) in stale:
            label = _superseded_label(label)
        content = _content(row["spec"])
        spec = None if content is None or "text" not in content else _read(CalibrationSpec, content)
        hashes[row["id"]] = row["hash"] if spec is None else spec.content_hash()
        changes.append((dict(row), dict(row) | {"method_label": label}))
    _write(connection, calibrations, changes, hashes)


def _upgrade_rotations(connection: sa.Connection, stale: set[tuple[int, str]]) -> None:
    rotations = sa.table("rotations", *map(sa.column, ("id", "model_id", "hash")))
    rows = connection.execute(sa.select(rotations)).mappings().all()
    hashes = {row["id"]: _superseded_hash(row["hash"]) for row in rows if (row["model_id"], row["hash"]) in stale}
    _write(connection, rotations, [(dict(row), dict(row)) for row in rows], hashes)


def _assign(claims: Sequence[Claim]) -> dict[int, str]:
    """Return the new hash of every row, each hash once. A row that does not get the hash of its spec keeps its old one,
    or where another row gets that, one that no spec has."""
    owners: dict[str, int] = {}
    for claim in sorted(claims, key=lambda claim: claim.rank, reverse=True):
        owners.setdefault(claim.new, claim.id)
    assigned = {number: name for name, number in owners.items()}
    for claim in claims:
        if claim.id not in assigned:
            assigned[claim.id] = _superseded_hash(claim.old) if claim.old in owners else claim.old
    return assigned


def _write(
    connection: sa.Connection,
    table: sa.TableClause,
    changes: Iterable[tuple[_Content, _Content]],
    hashes: Mapping[int, str] | None = None,
) -> None:
    """Write the rows that changed, pairs of before and after. New hashes are written last: a row may get the hash that
    another one leaves."""
    own: dict[int, str] = dict(hashes or {})
    moved = []
    for before, after in changes:
        changed = {name: value for name, value in after.items() if value != before[name]}
        new = own.get(before["id"], before.get("hash"))
        if new != before.get("hash"):
            changed["hash"] = f"moved {before['id']}"
            moved.append({"of": before["id"], "new": new})
        if changed:
            connection.execute(sa.update(table).where(table.c.id == before["id"]).values(changed))
    if moved:
        update = sa.update(table).where(table.c.id == sa.bindparam("of")).values(hash=sa.bindparam("new"))
        connection.execute(update, moved)


def _content(text: str | None) -> _Content | None:
    """Return the object in a JSON text; None where there is none."""
    try:
        content = json.loads(text or "")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _read(kind: type[_Spec], content: _Content) -> _Spec | None:
    """Return the spec of a content; None for one that is refused by now."""
    try:
        return kind.model_validate(content)
    except (ValidationError, AttributeError, TypeError):
        return None
