"""How a plot is to be saved: the format, the size on paper, and for whom."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wina_app.style.translation import tr

PlotFormat = Literal["png", "svg", "pdf", "py"]
FORMATS: dict[PlotFormat, tuple[str, str]] = {
    "png": (tr("PNG image"), tr("Pixels, as many to the inch as chosen")),
    "svg": (tr("SVG drawing"), tr("Vectors, with its words as text")),
    "pdf": (tr("PDF page"), tr("Vectors on one page of just this size, with its fonts")),
    "py": (tr("Python script and data"), tr("A program for matplotlib, and the numbers as CSV beside it")),
}
"""Suffix: (name, explanation)."""
MILLIMETRES = 25.4
"""In an inch."""
SCREEN_DPI = 96.0
"""At which one of the window's pixels is as large as it is on paper."""


class PlotFile(BaseModel):
    """What was chosen; the last choice is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: PlotFormat = "png"
    width: Annotated[float, Field(ge=20, le=1000)] = 160.0
    """Millimetres."""
    height: Annotated[float, Field(ge=20, le=1000)] = 100.0
    """Millimetres."""
    dpi: Annotated[int, Field(ge=36, le=1200)] = 300
    """Of images."""
    light: bool = True
    """Whether it is for print, however the window looks."""

    @property
    def pixels(self) -> tuple[int, int]:
        """Of the image."""
        return round(self.width / MILLIMETRES * self.dpi), round(self.height / MILLIMETRES * self.dpi)

    @property
    def logical(self) -> tuple[int, int]:
        """The window's pixels that it takes, of which the texts' sizes are told: width and height."""
        return round(self.width / MILLIMETRES * SCREEN_DPI), round(self.height / MILLIMETRES * SCREEN_DPI)


class LastChoice:
    """The last choice, in this session or, where there is a place for it, in the one before."""

    def __init__(self) -> None:
        self._choice = PlotFile()
        self._write: Callable[[dict[str, object]], None] = lambda _: None

    def keep(self, written: dict[str, object], write: Callable[[dict[str, object]], None]) -> None:
        """Begin with what was written before, and write every further choice; what makes no sense is passed over."""
        self._write = write
        try:
            self._choice = PlotFile.model_validate(written)
        except ValidationError:
            self._choice = PlotFile()

    @property
    def choice(self) -> PlotFile:
        """What was chosen last."""
        return self._choice

    @choice.setter
    def choice(self, choice: PlotFile) -> None:
        if choice != self._choice:
            self._choice = choice
            self._write(choice.model_dump())


last_choice = LastChoice()
"""Of this window."""
