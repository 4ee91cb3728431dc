"""What all specs are: immutable, closed to unknown fields, identified by content."""

import hashlib
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Base of all specs: immutable, closed to unknown fields, identified by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1

    def content_hash(self) -> str:
        """16 hex digits over the canonical JSON.

        Fields at their default are left out, so that adding a field keeps every stored hash; changing a default
        therefore needs a new `schema_version`.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        content["schema_version"] = self.schema_version
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]
