"""Results of other tools, read from a file."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, FiniteFloat

from wina_core.records.base import Record
from wina_core.specs import ModelSource
from wina_core.specs.evaluations import Scored

Tool = Literal["llama-bench", "llama-perplexity", "lm-eval", "table"]
_MOST_CHARACTERS = 1000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and surrogates, which no database stores."""


def _one_line(text: str) -> str:
    if len(text) > _MOST_CHARACTERS or _CONTROL.search(text):
        raise ValueError(f"it has control characters, or more than {_MOST_CHARACTERS:,} characters")
    return text


Words = Annotated[str, AfterValidator(_one_line)]
"""One line of text from a file of others, which is printed on terminals."""


EARLIEST, LATEST = 946_684_800, 4_102_444_800
"""Times between which a measurement can be, seconds since the epoch: the years 2000 to 2099."""


class ImportedValue(Record):
    """One number of an imported point."""

    value: FiniteFloat
    stderr: FiniteFloat | None = None
    """Standard error or deviation, as the tool reports it; None where it reports none."""


class ImportedPoint(Record):
    """One configuration that another tool measured."""

    name: Words = Field(min_length=1)
    """Label of the configuration, for example "tiny-Q4_0.gguf"."""
    metrics: dict[Words, ImportedValue] = Field(min_length=1)
    """By the names of `wina_core.store.imported.metrics.METRICS`, or "task metric" of lm-eval."""
    settings: dict[Words, Words] = Field(default_factory=dict)
    """Settings of the measurement that the file states, such as threads and backend."""
    model: Words = ""
    """Name or file of the measured model, as the file states it; empty if it does not."""
    architecture: Words = ""
    """GGUF architecture, for example "llama"; empty if it is not stated."""
    parameters: FiniteFloat | None = None
    """Number of weights that the file states, perhaps rounded to three digits."""
    hardware: Words = ""
    """Processor or GPU that the file states; empty if it does not."""


class ImportedFile(Record):
    """The content of a file of another tool."""

    file: Words
    """Name without its folder."""
    digest: str
    """SHA-256 of the content, 64 hex digits."""
    tool: Tool
    version: Words = ""
    """Version or build of the tool; empty if the file does not state it."""
    measured: FiniteFloat | None = None
    """Time of the measurement, seconds since the epoch; None if the file does not state it."""
    points: tuple[ImportedPoint, ...] = Field(min_length=1)


class StoredImport(Record):
    """An imported file in the store, with the workbench's model that the user matched it to."""

    id: int
    content: ImportedFile
    model: str
    """Short name of the workbench's model."""
    location: str
    """Location of its ModelSource."""
    model_hash: str
    """Content hash of its ModelSource."""
    fingerprint: str = ""
    """Digest of its files."""
    imported: float
    """Time of the import, seconds since the epoch."""

    def is_of(self, model: ModelSource) -> bool:
        """Return whether it was matched to this model, whatever its data type, device and quantization."""
        return (self.location, self.fingerprint) == (model.location, model.fingerprint)

    @property
    def date(self) -> float:
        """Return the time of the measurement, or of the import where the file states none or an impossible one."""
        measured = self.content.measured
        return self.imported if measured is None or not self.is_dated else measured

    @property
    def is_dated(self) -> bool:
        return self.content.measured is not None and EARLIEST <= self.content.measured < LATEST


def scored_beside(imports: Iterable[StoredImport], model: ModelSource) -> Scored:
    """Return the positions to score so that a model's numbers can stand beside those imported for it."""
    # llama-perplexity scores the second half of each row alone.
    halves = any(stored.content.tool == "llama-perplexity" and stored.is_of(model) for stored in imports)
    return "second_half" if halves else "all"


class Parsed(NamedTuple):
    """Points with the tool that measured them."""

    tool: Tool
    points: tuple[ImportedPoint, ...]
    version: str = ""
    measured: float | None = None
    """Seconds since the epoch."""
    remarks: tuple[str, ...] = ()
    """Sentences on content that was left out."""
