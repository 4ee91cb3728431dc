"""Settings of a plot's file: format, size on paper, resolution and appearance."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wina_app.style.translation import tr

PlotFormat = Literal["png", "svg", "pdf", "py"]
FORMATS: dict[PlotFormat, tuple[str, str]] = {
    "png": (tr("PNG image"), tr("Pixels, as many to the inch as chosen")),
    "svg": (tr("SVG drawing"), tr("Vectors, with its words as text")),
    "pdf": (tr("PDF page"), tr("Vectors on one page of just this size, with its fonts")),
    "py": (tr("Python script"), tr("A program for matplotlib with the numbers in it")),
}
"""Suffix: (name, explanation)."""
MILLIMETRES = 25.4
"""Millimetres in an inch."""
SCREEN_DPI = 96.0
"""Resolution at which a pixel of the window has its size on paper."""


class PlotFile(BaseModel):
    """The choice for one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: PlotFormat = "png"
    width: Annotated[float, Field(ge=20, le=1000)] = 160.0
    """Millimetres."""
    height: Annotated[float, Field(ge=20, le=1000)] = 100.0
    """Millimetres."""
    dpi: Annotated[int, Field(ge=36, le=1200)] = 300
    """Dots per inch of an image."""
    light: bool = True
    """True for print, False for the window's colours."""

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height of the image."""
        width, height = self.inches
        return round(width * self.dpi), round(height * self.dpi)

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height."""
        return self.width / MILLIMETRES, self.height / MILLIMETRES


class LastChoice:
    """The last choice, of this session or of the one before."""

    def __init__(self) -> None:
        self._choice = PlotFile()
        self._write: Callable[[dict[str, object]], None] = lambda _: None

    def keep(self, written: dict[str, object], write: Callable[[dict[str, object]], None]) -> None:
        """Begin with the choice that was written before, if it is valid, and write every further one."""
        self._write = write
        try:
            self._choice = PlotFile.model_validate(written)
        except ValidationError:
            self._choice = PlotFile()

    @property
    def choice(self) -> PlotFile:
        """The last choice."""
        return self._choice

    @choice.setter
    def choice(self, choice: PlotFile) -> None:
        if choice != self._choice:
            self._choice = choice
            self._write(choice.model_dump())


last_choice = LastChoice()
"""The window's last choice."""
