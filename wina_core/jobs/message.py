"""The base of all messages and their encoding."""

from wina_core.records.base import Record


class Message(Record):
    """Base of all messages."""


def encode(message: Message) -> str:
    """Return one line of JSON with its newline."""
    return message.model_dump_json() + "\n"
