"""What the user can set, with what each setting means; the settings dialog is made from this class alone."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wina_app.style.theme import Mode
from wina_app.style.translation import tr
from wina_core.results.measured import DEFAULT_COUNT, Count


class Preferences(BaseModel):
    """Immutable; a field's title and description are what the dialog says of it, its bounds what it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

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
        description=tr("Of all texts and of what is laid out around them, on top of the desktop's own."),
    )
    colour_map: Literal["viridis", "cividis"] = Field(
        "viridis",
        title=tr("Colours of heatmaps"),
        description=tr("Both are safe for all common colour vision; cividis has fewer hues."),
    )
    sparsity_count: Count = Field(
        DEFAULT_COUNT,
        json_schema_extra={
            "names": {
                "counted": tr("Counted (gated weights that are dropped)"),
                "full": tr("Full (everything read instead counts as read)"),
            }
        },
        title=tr("Sparsity in comparisons"),
        description=tr(
            "Plots, names of runs and comparisons use this measured sparsity, and show the target beside it."
        ),
    )
    notify: bool = Field(
        True, title=tr("Tell when a long job ends"), description=tr("At the lower edge, with a way to its results.")
    )
    reopen: bool = Field(
        True,
        title=tr("Begin where the last session ended"),
        description=tr("Model, rotation, method and plan are opened again."),
    )
    confirm_quit: bool = Field(
        True, title=tr("Ask before quitting while jobs run"), description=tr("What is stored stays either way.")
    )
    engines: Annotated[int, Field(ge=0, le=64)] = Field(
        0,
        title=tr("Engine processes"),
        description=tr("How many compute at once; 0 stands for one for each GPU. Takes effect at the next start."),
    )
    database: str = Field(
        "",
        title=tr("Results database"),
        description=tr("A file or an SQLAlchemy URL; empty for the default one. Takes effect at the next start."),
    )


def appearance_of(preferences: Preferences) -> tuple[Mode, float, str]:
    """What `apply_theme` takes."""
    return preferences.theme, preferences.text_size / 100, preferences.colour_map
