"""Unique labels of a study's runs: model, configuration and allocation."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wina_core.specs import DENSE, ROLE, Configuration, ModelSource, RunSpec, TextSpec, quantization_label
from wina_core.specs.studies import StudySpec


class RunLabel(NamedTuple):
    """The names of one run in its study; a run with several names has several labels."""

    run: str
    """Its hash."""
    model: str
    """The model's role, or its short name."""
    configuration: str
    """The configuration's name or label, with the differing fields where another has the same."""
    allocation: str
    """An allocator's label, or a table's provenance."""


class LabelledRun(NamedTuple):
    """A run of a study with its label."""

    spec: RunSpec
    label: RunLabel


def model_label(source: ModelSource) -> str:
    """Return a model's short name: the last part of the location, revision, data type and quantization."""
    name = re.split(r"[/\\]", source.location.rstrip("/\\"))[-1] or source.location
    dtype = source.dtype if source.dtype != "auto" else None
    quantization = quantization_label(source.quantization) if source.quantization != "none" else None
    extra = [detail for detail in (source.revision, dtype, quantization) if detail]
    return f"{name} ({', '.join(extra)})" if extra else name


def model_names(study: StudySpec) -> tuple[str, ...]:
    """Return the names of the study's models, in order, without quantization, which tables show beside them."""

    def name(model: ModelSource) -> str:
        if model.location.startswith(ROLE):
            return model.location.removeprefix(ROLE)
        return model_label(model.unquantized)

    names = [name(model) for model in study.models]
    fields = [_fields(model, without=("quantization", "fingerprint", "schema_version")) for model in study.models]
    bits = [model.quantization for model in study.models]
    return _disambiguate(names, fields, lambda one, other: bits[one] == bits[other])


def configuration_names(study: StudySpec) -> tuple[str, ...]:
    """Return the names of the study's configurations, in order; two without common runs may have one name."""
    names = [configuration.name or configuration.label for configuration in study.configurations]
    fields = [_fields(configuration.rotation) | _fields(configuration.method) for configuration in study.configurations]
    return _disambiguate(
        names, fields, lambda one, other: _meet(study, study.configurations[one], study.configurations[other])
    )


def own_label(spec: RunSpec) -> RunLabel:
    """Return the label of a run outside of studies."""
    configuration = Configuration(rotation=spec.rotation, method=spec.method).label
    selection = "" if spec.method.selection == "topk" else f", {spec.method.selection}"
    model = model_label(spec.model.unquantized)
    return RunLabel(spec.content_hash(), model, configuration + selection, spec.plan.provenance)


def distinct(runs: Iterable[LabelledRun]) -> tuple[LabelledRun, ...]:
    """Return the runs in order, each once under each label; equal labels of different tables get numbers."""
    numbers: dict[tuple[object, ...], dict[str, int]] = {}
    labelled: dict[RunLabel, LabelledRun] = {}
    for spec, label in runs:
        point = (label.model, spec.model.quantization, label.configuration, spec.plan.budget, label.allocation)
        point_numbers = numbers.setdefault(point, {})
        number = point_numbers.setdefault(label.run, len(point_numbers) + 1)
        unique = label if number == 1 else label._replace(allocation=f"{label.allocation} ({number})")
        labelled.setdefault(unique, LabelledRun(spec, unique))
    return tuple(labelled.values())


def _meet(study: StudySpec, one: Configuration, other: Configuration) -> bool:
    """Return whether two configurations have runs of the same model at the same sparsity."""
    if one.roles and other.roles and not set(one.roles) & set(other.roles):
        return False
    if study.plans or one.method.name == DENSE.name or other.method.name == DENSE.name:
        return True
    return bool(set(one.sparsities or study.sparsities) & set(other.sparsities or study.sparsities))


def _disambiguate(
    names: Sequence[str], fields: Sequence[Mapping[str, str]], meet: Callable[[int, int], bool]
) -> tuple[str, ...]:
    """Return each name, with the fields that differ from any of the same name that it meets."""
    unique = []
    for one, name in enumerate(names):
        same = [fields[at] for at, other in enumerate(names) if other == name and meet(at, one)]
        differing = [text for field, text in fields[one].items() if any(other[field] != text for other in same)]
        unique.append(", ".join([name, *differing]))
    return tuple(unique)


def _fields(of: Any, without: Sequence[str] = ("schema_version",)) -> dict[str, str]:
    return {name: _words(name, getattr(of, name)) for name in type(of).model_fields if name not in without}


_SELF_EXPLAINING = ("selection", "variant", "dtype", "mode", "objective", "location", "name")
"""Fields whose values need no name before them."""


def _words(name: str, value: object) -> str:
    if isinstance(value, TextSpec):
        return f"on {value.label}"
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    if isinstance(value, str) and name in _SELF_EXPLAINING:
        return value
    return f"{name.replace('_', ' ')} {value}"
