"""Details of runs beside their numbers: annotations, studies, seed, hardware and rotation."""

import json
from collections.abc import Mapping

from sqlalchemy import Connection, select

from wina_core.specs import RotationSpec
from wina_core.store.metric_rows import RunDetails
from wina_core.store.tables import Environment, Run, Study, StudyRun


class RunDetailRows:
    """Details of all runs. The spec of a run never changes, so it is read and described only once."""

    def __init__(self) -> None:
        self._rotations: dict[str, str] = {}
        """By the run's hash."""

    def read(self, connection: Connection) -> dict[str, RunDetails]:
        """Return the details of all runs that are not deleted, by hash."""
        query = (
            select(
                *(Run.id, Run.hash, Run.tags, Run.note, Run.pinned, Run.seed),
                *(Environment.hardware, Run.user, Run.host, Run.chosen_rotation),
            )
            .outerjoin(Environment, Environment.id == Run.environment_id)
            .where(Run.deleted.is_(None))
        )
        found = connection.execute(query).all()
        self._read_rotations(connection, {row.hash: row.id for row in found})
        studies = _studies(connection)
        return {
            run: RunDetails(
                tags,
                note,
                pinned,
                seed,
                hardware or "",
                studies.get(number, ""),
                chosen or self._rotations[run],
                user,
                host,
            )
            for number, run, tags, note, pinned, seed, hardware, user, host, chosen in found
        }

    def _read_rotations(self, connection: Connection, runs: Mapping[str, int]) -> None:
        unknown = [number for run, number in runs.items() if run not in self._rotations]
        if unknown:
            described: dict[str, str] = {}
            query = select(Run.hash, Run.spec).where(Run.id >= min(unknown))  # ids grow: the new ones, as a rule
            for run, spec in connection.execute(query):
                if run not in self._rotations:
                    head = spec.partition('"plan":')[0]  # with the rotation, as thousands of runs have it
                    if head not in described:
                        rotation = RotationSpec.model_validate_json(json.dumps(json.loads(spec).get("rotation")))
                        described[head] = rotation_details(rotation)
                    self._rotations[run] = described[head]


def rotation_details(rotation: RotationSpec) -> str:
    """Describe a rotation with all its settings; empty for none. `RotationSpec.label` leaves out the usual ones."""
    if rotation.is_identity:
        return ""
    if rotation.is_auto:
        return rotation.label
    parts: list[str] = [rotation.mode]
    if rotation.matrices:
        parts.append(f"matrices of {rotation.matrices}")
    elif rotation.mode != "none":
        by_names = f"attention {'+'.join(rotation.attention_basis)}, mlp {'+'.join(rotation.mlp_basis)}"
        parts.append("sites weighted by sensitivity" if rotation.weighting == "sensitivity" else by_names)
    if rotation.per_head:
        parts.append("per head")
    if rotation.fold_norms != "none":
        parts.append(f"norms folded ({rotation.fold_norms})")
    if not rotation.matrices and rotation.objective != "eigen":
        noise = f" and {rotation.noise_bits} bits" if rotation.noise_bits != 16 else ""
        parts.append(f"refined on {rotation.objective}{noise}, {rotation.steps} steps")
    if rotation.reads_text:
        parts.append(f"reads {rotation.text.tokens:,} tokens of {rotation.text.label}")
    return ", ".join(parts)


def _studies(connection: Connection) -> dict[int, str]:
    """Return the names of each run's studies, in the order in which they were stored, by the run's id."""
    query = select(StudyRun.run_id, Study.name).join(Study, Study.id == StudyRun.study_id).order_by(Study.id)
    found: dict[int, str] = {}
    for run, name in connection.execute(query):
        before = found.get(run)
        found[run] = name if before is None else f"{before}, {name}"
    return found
