"""The base of what is exchanged and kept as JSON."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of records and messages: immutable, closed to unknown fields, JSON both ways, non-finite floats included."""

    # Validators are built at their first use, so that the window opens sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)
