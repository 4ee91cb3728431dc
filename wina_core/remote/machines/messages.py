"""Questions to the program `wina` on a machine, and its answers: one line of JSON each."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from wina_core.records.base import Record
from wina_core.specs import ModelSource

MOST_LINE = 16 * 2**20
"""Most bytes of a question or an answer."""
MOST_ECHO = 8 * 2**20
"""Most characters of an echo, each way."""
MOST_FOLDERS = 2000

Short = Annotated[str, Field(max_length=500)]
PathText = Annotated[str, Field(max_length=4096)]
Size = Annotated[int, Field(ge=0)]


def _check_fingerprint(model: ModelSource) -> ModelSource:
    if not re.fullmatch("[0-9a-f]{16}", model.fingerprint or ""):
        raise ValueError("its fingerprint should have 16 hex digits")
    return model


class Question(Record):
    """One question."""

    protocol: int
    """`PROTOCOL` of the asking program."""
    operation: Short
    arguments: dict[str, Any]


class Answer(Record):
    """The answer to one question: a result or an error."""

    wina_answer: int
    """`PROTOCOL` of the answering program. First, so that a line of a login script is not taken for an answer."""
    program: Short
    """Version of the answering program."""
    result: dict[str, Any] | None = None
    error: Annotated[str, Field(max_length=4000)] = ""


class Nothing(Record):
    """A question without arguments."""


class Device(Record):
    """One accelerator of a machine."""

    name: Short
    memory_total: Size
    """Bytes."""
    memory_free: Size


class MachineFacts(Record):
    """The program and the hardware of a machine."""

    program: Short
    """Version of the program."""
    protocol: int
    python: Short
    system: Short
    host: Short
    home: PathText
    cpus: Size
    """Processors that the program may use."""
    memory_total: Size
    """Bytes, of the tightest control group where one has a limit."""
    memory_free: Size
    devices: Annotated[tuple[Device, ...], Field(max_length=64)]
    data_folder: PathText
    data_free: Size
    """Bytes left on the disk of results."""
    cache_folder: PathText
    cache_free: Size
    """Bytes left on the disk of calibrations and rotated weights."""


class FolderQuestion(Record):
    """The folder to list; a leading ~ is the home folder there."""

    path: PathText = "~"


class FolderEntry(Record):
    """One folder or GGUF file in a folder."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\x00]+$")]
    is_model: bool
    """Whether it has a config.json, or is a GGUF file."""
    size: Size | None = None
    """Bytes of a model's weight files."""

    @property
    def is_file(self) -> bool:
        """Return whether it is a GGUF file, which its name says: older programs refuse a further field."""
        return self.is_model and self.name.lower().endswith(".gguf")


class FolderListing(Record):
    """The folders and GGUF files in a folder of a machine, sorted by name; hidden ones and names that are no text are
    left out."""

    path: PathText
    """The folder, absolute."""
    is_model: bool
    folders: Annotated[tuple[FolderEntry, ...], Field(max_length=MOST_FOLDERS)]
    truncated: bool = False
    """Whether it has more than `MOST_FOLDERS`."""


class ModelQuestion(Record):
    """The model to resolve, with its path on the machine."""

    model: ModelSource


class ResolvedModel(Record):
    """A model with absolute path and fingerprint."""

    model: Annotated[ModelSource, AfterValidator(_check_fingerprint)]


class Echo(Record):
    """Text to be counted, and the length of the text to be sent back."""

    text: Annotated[str, Field(max_length=MOST_ECHO)] = ""
    reply: Annotated[int, Field(ge=0, le=MOST_ECHO)] = 0


class Echoed(Record):
    """The length of the text that came, and random text."""

    received: Size
    text: Annotated[str, Field(max_length=MOST_ECHO)] = ""
