"""A rotation with a method, from a preset or from the flags of both."""

from typing import Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.errors import WinaError
from wina_core.specs import Configuration, MethodSpec, RotationSpec
from wina_core.specs.presets import preset as named_preset
from wina_core.specs.presets import reading

_REPLACED = {"selection", "correction"}
"""Fields of a preset's method that flags replace."""


def combine(
    context: typer.Context, method: MethodSpec, rotation: RotationSpec, preset: options.Preset = None
) -> Configuration:
    """Combine rotation and method; a preset brings its own rotation, and the flags complete its method.

    The flags may also replace a preset's selection and correction, and set the sparsity of its rotation `auto`. Raises
    WinaError for the other flags of a rotation beside a preset, and for flags of the method that contradict it.
    """
    if preset is None:
        return Configuration(rotation=rotation, method=method)
    own = named_preset(preset)
    of_method, of_rotation = _given(context, "method"), _given(context, "rotation")
    fields = own.method.model_fields_set - _REPLACED | {"variant"}
    refused = [
        flag
        for field, (flag, _) in of_method.items()
        if field in fields and getattr(method, field) != getattr(own.method, field)
    ]
    accepted = {"sparsity"} if own.rotation.is_auto else set()
    if own.rotation.is_identity and rotation.is_identity:
        accepted |= {"mode", "heads"}
    refused += [flag for field, (flag, _) in of_rotation.items() if field not in accepted]
    if refused:
        raise WinaError(
            f'The preset "{preset}" brings its own method and rotation; leave out {", ".join(refused)}, or --preset.'
        )
    given = method.model_dump(exclude={"name", "variant"}) | own.method.model_dump(exclude_unset=True)
    given |= {field: getattr(method, field) for field in _REPLACED & of_method.keys()}
    changes: dict[str, object] = {"method": MethodSpec.model_validate(given)}
    if "sparsity" in of_rotation:
        compared_at = of_rotation["sparsity"][1]
        changes["rotation"] = RotationSpec.model_validate({**own.rotation.model_dump(), "sparsity": compared_at})
    return own.model_copy(update=changes)


def combine_on(
    text: str, context: typer.Context, method: MethodSpec, rotation: RotationSpec, preset: str | None
) -> Configuration:
    """Combine them as `combine` does, with a text on which a preset chooses its rotation and its allocation."""
    configuration = combine(context, method, rotation, preset)
    return reading(configuration, text) if preset else configuration


def _given(context: typer.Context, maker: str) -> dict[str, tuple[str, Any]]:
    """Return the flags on the command line that a maker takes, with their values, by the maker's parameters."""
    found = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source, prefix = context.get_parameter_source(name), f"{maker}_"
        of_maker = name.removeprefix("configuration_")  # where `configuration_of` takes the maker's flags
        if of_maker.startswith(prefix) and source is not None and source.name == "COMMANDLINE":
            found[of_maker.removeprefix(prefix)] = (parameter.opts[0], context.params[name])
    return found


configuration_of = taking(method=options.method_spec, rotation=options.rotation_spec)(combine)
"""`combine` of the flags of both."""
