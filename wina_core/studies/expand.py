"""Study files, and the expansion of studies into runs."""

import itertools
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.model_info.resolve import resolve, resolve_data, resolve_rotation, resolve_text
from wina_core.model_info.text_files import DATA, split_range
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    ROLE,
    AllocatedSparsity,
    CalibrationSpec,
    Configuration,
    ModelSource,
    Plan,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.allocations import with_texts
from wina_core.specs.evaluations import plain_task
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.published import published
from wina_core.studies.run_labels import LabelledRun, RunLabel, configuration_names, distinct, model_names

MAX_RUNS = 20_000
SCHEMA_VERSION = 2
"""Version of study files; version 1 was never released."""
_PROGRAM_TASKS = ("humaneval", "mbpp")
"""Prefixes of lm-eval's tasks that run a model's programs. The engine refuses any such task without consent."""


def expand(study: StudySpec) -> tuple[RunSpec, ...]:
    """Return the study's runs, files resolved, each once, by model, configuration, allocator, sparsity and plan.

    A dense configuration is one run per rotation for all sparsities. Fields that no number of a run depends on have
    their defaults, so that equal runs of different studies have equal hashes. Raises WinaError for
    more than MAX_RUNS runs, and for a missing model folder, matrices file or text.
    """
    return specs_of(labelled(study))


def labelled(study: StudySpec) -> tuple[LabelledRun, ...]:
    """Return the runs of `expand` with their names; a run under two names is repeated. Raises WinaError as `expand`."""
    _check_size(study)  # before any file is read: a mistyped study could have millions of runs
    sources = [resolve(_mapped(study, model)) for model in study.models]
    return _labelled(_resolved(study), sources, study)


def _check_size(study: StudySpec) -> None:
    pairs = itertools.product(study.models, study.configurations)
    lines = [configuration for model, configuration in pairs if _is_for(configuration, model)]
    count = sum(
        1
        if _is_dense(configuration)
        else len(configuration.sparsities or study.sparsities) * len(study.allocators_of(configuration))
        + len(study.plans)
        for configuration in lines
    )
    if count > MAX_RUNS:
        raise WinaError(f"The study {study.name!r} expands to {count:,} runs, more than {MAX_RUNS:,}; split it up.")


def specs_of(runs: Iterable[LabelledRun]) -> tuple[RunSpec, ...]:
    """Return the runs, each once: of equal tables with different origins the first."""
    specs: dict[str, RunSpec] = {}
    for run in runs:
        specs.setdefault(run.label.run, run.spec)
    return tuple(specs.values())


def count_runs(study: StudySpec) -> int:
    """Return the number of a study's runs, without reading any file or weights."""
    return len(specs_of(unresolved(study)))


def unresolved(study: StudySpec) -> tuple[LabelledRun, ...]:
    """Return the study's runs with their names, without reading any file or weights.

    Their hashes are not those of `labelled`: the fingerprints of models and texts are missing.
    """
    named = {ROLE + role.name: role.location for role in study.roles if role.location}
    sources = [
        model.model_copy(update={"location": named.get(model.location, model.location)}) for model in study.models
    ]
    return _labelled(study, sources, study)


def _labelled(study: StudySpec, sources: Sequence[ModelSource], named: StudySpec) -> tuple[LabelledRun, ...]:
    """Return the runs with their names; `sources` are the models, `named` the study before its files are resolved."""
    models, configurations = model_names(named), configuration_names(named)
    return distinct(
        LabelledRun(run, RunLabel(run.content_hash(), model_name, configuration_name, run.plan.provenance))
        for model, source, model_name in zip(study.models, sources, models, strict=True)
        for configuration, configuration_name in zip(study.configurations, configurations, strict=True)
        if _is_for(configuration, model)
        for run in _runs(study, source, configuration)
    )


def _is_for(configuration: Configuration, model: ModelSource) -> bool:
    return not configuration.roles or model.location.removeprefix(ROLE) in configuration.roles


def _resolved(study: StudySpec) -> StudySpec:
    """Return the study with the fingerprints of all its files but the models'."""
    folder = study.evaluation.data_folder
    evaluation = resolve_data(study.evaluation)
    tasks = tuple(  # no number depends on the metric for tables
        task if isinstance(task, str) else plain_task(task.model_copy(update={"metric": None}))
        for task in study.evaluation.tasks
    )
    return with_files(
        study.model_copy(update={"evaluation": evaluation.model_copy(update={"tasks": tasks})}),
        of_rotation=partial(resolve_rotation, data=folder),
        of_text=partial(resolve_text, data=folder),
    )


def with_files(
    study: StudySpec,
    of_rotation: Callable[[RotationSpec], RotationSpec],
    of_text: Callable[[TextSpec], TextSpec],
) -> StudySpec:
    """Return the study with its rotations and its other texts changed by two functions."""
    evaluation = study.evaluation
    return study.model_copy(
        update={
            "configurations": tuple(
                configuration.model_copy(
                    update={
                        "rotation": of_rotation(configuration.rotation),
                        "allocators": with_texts(configuration.allocators, of_text),
                    }
                )
                for configuration in study.configurations
            ),
            "allocators": with_texts(study.allocators, of_text),
            "calibration": study.calibration.model_copy(update={"text": of_text(study.calibration.text)}),
            "evaluation": evaluation.model_copy(
                update={
                    "fidelity": evaluation.fidelity and of_text(evaluation.fidelity),
                    "original": evaluation.original and of_text(evaluation.original),
                }
            ),
        }
    )


def texts_of(study: StudySpec) -> tuple[TextSpec, ...]:
    """Return all texts of the study, read or not."""
    allocators = (study.allocators, *(configuration.allocators for configuration in study.configurations))
    return (
        study.calibration.text,
        *study.evaluation.texts,
        *(configuration.rotation.text for configuration in study.configurations),
        *(allocator.text for allocator in itertools.chain(*allocators)),
    )


def data_sets(study: StudySpec) -> tuple[str, ...]:
    """Return the names of the data sets whose rows the study's texts read from a data folder, each once."""
    sources = [text.source for text in texts_of(study) if text.source.startswith(DATA)]
    return tuple(dict.fromkeys(split_range(source)[0].removeprefix(DATA) for source in sources))


def bind(study: StudySpec, locations: Mapping[str, str]) -> StudySpec:
    """Return the study with its roles mapped to folders or hub ids; unknown roles are ignored.

    A role that the study's file maps, for example to a shipped model, keeps that.
    """
    return _located(study, {**locations, **{role.name: role.location for role in study.roles if role.location}})


def with_data_folder(study: StudySpec, folder: str | None) -> StudySpec:
    """Return the study with another folder of local data (`EvaluationSpec.data_folder`); unchanged for None."""
    if folder is None:
        return study
    return study.model_copy(update={"evaluation": study.evaluation.model_copy(update={"data_folder": folder})})


def rebind(study: StudySpec, locations: Mapping[str, str]) -> StudySpec:
    """Return the study with these roles mapped anew; WinaError for an unknown role."""
    names = [role.name for role in study.roles]
    for name in locations:
        if name not in names:
            has = f"its roles are {', '.join(names)}" if names else "it has none"
            raise WinaError(f'The study "{study.name}" has no role "{name}"; {has}.')
    return _located(study, locations)


def _located(study: StudySpec, locations: Mapping[str, str]) -> StudySpec:
    roles = tuple(role.model_copy(update={"location": locations.get(role.name, role.location)}) for role in study.roles)
    return study.model_copy(update={"roles": roles})


def roles_of(study: StudySpec) -> dict[str, str]:
    """Return each model's role, or its location where it has none, by content hash of the resolved model."""
    return {resolve(_mapped(study, model)).content_hash(): model.location.removeprefix(ROLE) for model in study.models}


def program_tasks(study: StudySpec) -> tuple[str, ...]:
    """Return the study's tasks, of those known here, that run the model's programs."""
    return tuple(name for name in study.evaluation.task_names if name.startswith(_PROGRAM_TASKS))


def unmapped(study: StudySpec) -> tuple[Role, ...]:
    played = {model.location.removeprefix(ROLE) for model in study.models if model.location.startswith(ROLE)}
    return tuple(role for role in study.roles if role.name in played and not role.location)


def _mapped(study: StudySpec, model: ModelSource) -> ModelSource:
    """Return a model at its role's location; WinaError for a role without one."""
    if not model.location.startswith(ROLE):
        return model
    role = next(role for role in study.roles if role.name == model.location.removeprefix(ROLE))
    if not role.location:
        weights = f" (its published weights are {role.hub})" if role.hub else ""
        raise WinaError(
            f'The study "{study.name}" has no model for the role "{role.name}"{weights}; name its folder or hub id on '
            f'the Studies page, by the option role ("{role.name}=FOLDER"), or for the whole gallery with: wina study '
            f'roles "{role.name}=FOLDER".'
        )
    return model.model_copy(update={"location": role.location})


def _is_dense(configuration: Configuration) -> bool:
    return configuration.method.name == DENSE.name


def _runs(study: StudySpec, model: ModelSource, configuration: Configuration) -> Iterator[RunSpec]:
    # Rotations that change nothing may differ in their other fields; as one, equal runs have equal hashes.
    rotation = NO_ROTATION if configuration.rotation.is_identity else configuration.rotation
    if _is_dense(configuration):
        # No number of it depends on the prefix: equal runs of studies with different ones have one hash.
        evaluation = study.evaluation.model_copy(update={"dense_prefix": 0.0})
        yield RunSpec(model=model, rotation=rotation, evaluation=evaluation)
        return
    sparsities = configuration.sparsities or study.sparsities
    spread: list[Plan] = [
        UniformSparsity(sparsity=sparsity)
        if allocator.name == "uniform"
        else AllocatedSparsity(sparsity=sparsity, allocator=allocator)
        for allocator in study.allocators_of(configuration)
        for sparsity in sparsities
    ]
    for plan in [*spread, *study.plans]:
        yield RunSpec(
            model=model,
            rotation=rotation,
            method=configuration.method,
            plan=plan,
            calibration=_calibration(study, configuration, plan),
            evaluation=study.evaluation,
        )


def _calibration(study: StudySpec, configuration: Configuration, plan: Plan) -> CalibrationSpec | None:
    """Return the calibration that a run's method or allocator reads; exact top k ignores the kind of thresholds."""
    searched = isinstance(plan, AllocatedSparsity) and plan.allocator.is_released
    if not configuration.method.needs_calibration and not searched:
        return None
    return study.calibration.measured if configuration.method.selection == "topk" else study.calibration


def load_study(path: Path) -> StudySpec:
    """Return the study in a TOML or JSON file.

    A role's location that begins with "." is relative to the file's folder. Raises WinaError with the field of a
    fault, for too many runs, and for an unknown paper.
    """
    kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
    try:
        # Some editors of Windows begin a file with a byte order mark, which "utf-8" would keep.
        text = read_file(path, "study").decode("utf-8-sig")
        content = tomllib.loads(text) if kind == "TOML" else json.loads(text)
        version = content.pop("schema_version", SCHEMA_VERSION) if isinstance(content, dict) else SCHEMA_VERSION
        if version != SCHEMA_VERSION:
            raise WinaError(
                f"The study {path} has the schema_version {version!r}, and this program reads {SCHEMA_VERSION}; write "
                "that, or update the program."
            )
        study = StudySpec.model_validate(content)
    except ValidationError as error:
        raise WinaError(f"The study {path} is invalid: {explain(error)}") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise WinaError(f"The study {path} is not valid {kind}: {reason}.") from error
    _check_size(study)
    papers = dict.fromkeys(number.study for number in published())
    if study.paper and study.paper not in papers:
        raise WinaError(
            f'The study {path} is invalid: paper: the paper has no results "{study.paper}"; choose one of '
            f"{', '.join(papers)}, or leave it out."
        )
    # Relative locations belong to the file, so that a study and its model can be moved together.
    beside = {
        role.name: str((path.parent / role.location).resolve()) for role in study.roles if role.location[:1] == "."
    }
    return _located(study, beside)


def save_study_file(study: StudySpec, path: Path) -> None:
    """Write a study for `load_study`, as TOML for the suffix .toml, else as JSON, without fields at their default."""
    content = {"schema_version": SCHEMA_VERSION, **study.model_dump(mode="json", exclude_defaults=True)}
    if path.suffix.lower() == ".toml":
        text = tomli_w.dumps(_without_none(content))
    else:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def _without_none(value: Any) -> Any:
    """Replace None by false: TOML has no None, and only a text is ever written as None."""
    if isinstance(value, dict):
        return {name: _without_none(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_none(member) for member in value]
    return False if value is None else value
