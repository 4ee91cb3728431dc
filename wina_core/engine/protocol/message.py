"""The base of all messages and their encoding."""

from typing import Final

from pydantic import BaseModel, ConfigDict

PROTOCOL: Final = 1
"""Version of the messages; an engine on another machine must have the same."""


class Message(BaseModel):
    """Base of all messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)


def encode(message: Message) -> str:
    """Return one line of JSON with its newline."""
    return message.model_dump_json() + "\n"
