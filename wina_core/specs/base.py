"""The base of all specs, and their content hash."""

import hashlib
import json
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict

PROVENANCE: Final = "provenance"
"""Marks, as `Annotated[str, PROVENANCE]`, a field that says where a value came from; `Spec.content_hash` leaves it out,
since it is no part of a run's identity."""


class SpecPart(BaseModel):
    """Base of the parts of specs: immutable, closed to unknown fields.

    A field's alias is its earlier name: it is still read, and content hashes are made with it.
    """

    # Validators are built at their first use, so that the window opens sooner.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, defer_build=True
    )


class Spec(SpecPart):
    """Base of all specs: parts with an identity."""

    schema_version: Literal[1] = 1

    def content_hash(self) -> str:
        """Return 16 hex digits over the canonical JSON.

        Fields at their default are left out, so that a new field keeps every stored hash; a changed default needs a
        new `schema_version`. Fields marked `PROVENANCE` are left out at any depth: no number depends on them.
        """
        # By aliases: a renamed field keeps every stored hash.
        content = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_provenance(type(self)))
        # Left out as a default, but part of the identity.
        content["schema_version"] = self.schema_version
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@cache
def _provenance(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields marked `PROVENANCE`, of a model and of the models within it, as `model_dump` excludes them."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if PROVENANCE in field.metadata:
            fields[name] = True
        elif within := _provenance_within(field.annotation):
            fields[name] = within
    return fields


def _provenance_within(annotation: Any) -> dict[str, Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _provenance(annotation)
    fields: dict[str, Any] = {}
    for argument in get_args(annotation):  # the members of a union, or what a tuple holds
        fields |= _provenance_within(argument)
    return {"__all__": fields} if fields and get_origin(annotation) in (tuple, list) else fields
