"""Preferences of the user, with the texts of the settings dialog."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wina_app.style.theme import Mode
from wina_app.style.translation import tr
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.errors import WinaError
from wina_core.files.hardware import parse_bytes
from wina_core.files.paths import has_password


class Preferences(BaseModel):
    """Values that the user sets; the settings dialog shows each field's title and description, and keeps its bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    theme: Mode = Field(
        "system",
        json_schema_extra={"names": {"system": tr("System"), "light": tr("Light"), "dark": tr("Dark")}},
        title=tr("Appearance"),
        description=tr("System follows the desktop as it changes."),
    )
    text_size: Annotated[int, Field(ge=80, le=200)] = Field(
        100,
        json_schema_extra={"step": 10},
        title=tr("Text size (%)"),
        description=tr("Scales all texts and layouts on top of the desktop's setting."),
    )
    colour_map: Literal["viridis", "cividis"] = Field(
        "viridis",
        title=tr("Heatmap colours"),
        description=tr("Both suit all common colour vision; cividis has fewer hues."),
    )
    sparsity_count: Count = Field(
        DEFAULT_COUNT,
        json_schema_extra={
            "names": {
                "gated": tr("Gated (dropped weights of gated layers)"),
                "net": tr("Net (weights read in their place are subtracted)"),
            }
        },
        title=tr("Sparsity in comparisons"),
        description=tr("Measured sparsity in plots, run names and comparisons; the target is shown beside it."),
    )
    notify: bool = Field(
        True, title=tr("Notify when a long job ends"), description=tr("At the lower edge, with a link to the results.")
    )
    reopen: bool = Field(
        True,
        title=tr("Restore the last session"),
        description=tr("Opens the last model, rotation, method and plan at start."),
    )
    confirm_quit: bool = Field(
        True, title=tr("Confirm quitting while jobs run"), description=tr("Stored results are kept either way.")
    )
    engines: Annotated[int, Field(ge=0, le=64)] = Field(
        0,
        title=tr("Engine processes"),
        description=tr("Jobs that run at the same time; 0 means one per GPU. Takes effect at the next start."),
    )
    memory: str = Field(
        "",
        title=tr("Memory limit"),
        description=tr(
            "Memory that computing may take, such as 8GB; a larger model is read from its files layer by layer. Empty "
            "for all that is free. Takes effect at the next start."
        ),
    )
    llama_cpp: str = Field(
        "",
        title=tr("Folder of llama.cpp"),
        description=tr("Its convert_hf_to_gguf.py writes GGUF files; empty for that of LLAMA_CPP or the PATH."),
    )
    database: str = Field(
        "",
        title=tr("Results database"),
        description=tr("File or address of a server; empty for the default. Takes effect at the next start."),
    )

    @field_validator("memory")
    @classmethod
    def _is_size(cls, memory: str) -> str:
        """Refuse a text that is no size of memory."""
        if memory:
            try:
                parse_bytes(memory)
            except WinaError as error:
                raise ValueError(str(error)) from error
        return memory

    @field_validator("database")
    @classmethod
    def _has_no_password(cls, database: str) -> str:
        """Refuse a password, which would be stored."""
        if has_password(database):
            raise ValueError(
                tr("An address with a password is not stored; put the password into ~/.pgpass or the keyring.")
            )
        return database


def appearance_of(preferences: Preferences) -> tuple[Mode, float, str]:
    """Return the arguments of `apply_theme`."""
    return preferences.theme, preferences.text_size / 100, preferences.colour_map
