"""Studies as files, and what they expand to: the runs of a declarative grid."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.export import write_atomically
from wina_core.plan import UniformSparsity
from wina_core.sources import resolve, resolve_data, resolve_rotation, resolve_text
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    ROLE,
    AllocatedSparsity,
    AllocatorSpec,
    Arm,
    ModelSource,
    RunSpec,
    TaskSpec,
)
from wina_core.study_specs import StudySpec

MAX_RUNS = 20_000
MAX_FILE_BYTES = 32 * 2**20


def expand(study: StudySpec) -> tuple[RunSpec, ...]:
    """The study's runs, files resolved, each once, in the order models, arms, sparsities, allocators, plans.

    A dense arm is one run per rotation whatever the sparsities; fields that do not reach a run's numbers are set to
    their defaults, so that equal runs of different studies have equal hashes. Raises WinaError for more than
    MAX_RUNS runs, before any is made, and for a model folder, matrices or a text that is missing.
    """
    points = len(study.sparsities) * len(study.allocators) + len(study.plans)
    per_model = sum(1 if _is_dense(arm) else points for arm in study.arms)
    count = len(study.models) * per_model
    if count > MAX_RUNS:
        raise WinaError(f"The study {study.name!r} expands to {count:,} runs, more than {MAX_RUNS:,}; split it up.")
    study = _resolved(study)
    distinct = {
        run.content_hash(): run for model in study.models for arm in study.arms for run in _runs(study, model, arm)
    }
    return tuple(distinct.values())


def _resolved(study: StudySpec) -> StudySpec:
    """The study with the fingerprints of all files it names, which make them part of its runs' identity."""
    deviation = study.evaluation.deviation
    return study.model_copy(
        update={
            "models": tuple(resolve(_mapped(study, model)) for model in study.models),
            "arms": tuple(arm.model_copy(update={"rotation": resolve_rotation(arm.rotation)}) for arm in study.arms),
            "allocators": tuple(
                allocator.model_copy(update={"text": resolve_text(allocator.text)}) for allocator in study.allocators
            ),
            "calibration": study.calibration.model_copy(update={"text": resolve_text(study.calibration.text)}),
            "evaluation": resolve_data(study.evaluation).model_copy(
                update={
                    "deviation": None if deviation is None else resolve_text(deviation),
                    "tasks": tuple(_unnamed(task) for task in study.evaluation.tasks),
                }
            ),
        }
    )


def bind(study: StudySpec, locations: Mapping[str, str]) -> StudySpec:
    """The study with its roles mapped to folders or hub ids, those of other names left aside."""
    roles = tuple(role.model_copy(update={"location": locations.get(role.name, role.location)}) for role in study.roles)
    return study.model_copy(update={"roles": roles})


def roles_of(study: StudySpec) -> dict[str, str]:
    """Content hash of a resolved model: the role it plays, or its own location where it plays none."""
    return {resolve(_mapped(study, model)).content_hash(): model.location.removeprefix(ROLE) for model in study.models}


def _mapped(study: StudySpec, model: ModelSource) -> ModelSource:
    """A model with what its role stands for; WinaError for a role without a model."""
    if not model.location.startswith(ROLE):
        return model
    role = next(role for role in study.roles if role.name == model.location.removeprefix(ROLE))
    if not role.location:
        weights = f" (its published weights are {role.hub})" if role.hub else ""
        raise WinaError(
            f'The study "{study.name}" has no model for the role "{role.name}"{weights}; name its folder or hub id, '
            f'on the Studies page or with: wina study roles "{role.name}=FOLDER".'
        )
    return model.model_copy(update={"location": role.location})


def _unnamed(task: str | TaskSpec) -> str | TaskSpec:
    """A task without the metric that tables show, on which no number depends."""
    if isinstance(task, str):
        return task
    bare = task.model_copy(update={"metric": None})
    return task.name if bare == TaskSpec(name=task.name) else bare


def _is_dense(arm: Arm) -> bool:
    return arm.method.name == DENSE.name


def _runs(study: StudySpec, model: ModelSource, arm: Arm) -> Iterator[RunSpec]:
    rotation = NO_ROTATION if arm.rotation.is_identity else arm.rotation
    if _is_dense(arm):
        evaluation = study.evaluation.model_copy(update={"dense_prefix": 0.0})
        yield RunSpec(model=model, rotation=rotation, evaluation=evaluation)
        return
    calibration = study.calibration if arm.method.needs_calibration else None
    spread = [_spread(allocator, sparsity) for allocator in study.allocators for sparsity in study.sparsities]
    for plan in [*spread, *study.plans]:
        yield RunSpec(
            model=model,
            rotation=rotation,
            method=arm.method,
            plan=plan,
            calibration=calibration,
            evaluation=study.evaluation,
        )


def _spread(allocator: AllocatorSpec, sparsity: float) -> UniformSparsity | AllocatedSparsity:
    if allocator.name == "uniform":
        return UniformSparsity(sparsity=sparsity)
    return AllocatedSparsity(sparsity=sparsity, allocator=allocator)


def load_study(path: Path) -> StudySpec:
    """A study from a TOML or JSON file; WinaError names the line or the field that is wrong, and why."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise WinaError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB, too large to be a study.")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise WinaError(f"The study {path} cannot be read ({cause}); check the path and the file.") from error
    try:
        content = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
        return StudySpec.model_validate(content)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise WinaError(f"The study {path} is not valid {kind}: {reason}.") from error
    except ValidationError as error:
        raise WinaError(f"The study {path} is not right: {explain(error)}") from error
    except ValueError as error:  # a number of thousands of digits, which Python does not read
        raise WinaError(f"The study {path} cannot be read: {str(error).partition(';')[0]}.") from error


def save_study_file(study: StudySpec, path: Path) -> None:
    """Write a study as JSON that `load_study` reads back; fields at their default are left out."""
    content = study.model_dump(mode="json", exclude_defaults=True)
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
