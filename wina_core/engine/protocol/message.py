"""What all messages are, and how they are put on the wire."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of all messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def encode(message: Message) -> str:
    """One line of JSON with its newline."""
    return message.model_dump_json() + "\n"
