"""The tables of imported files and their points."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from wina_core.store.tables import Table


class ImportedFile(Table):
    """A file of another tool; columns as `records.imports.ImportedFile` says."""

    __tablename__ = "imported_files"
    id: Mapped[int] = mapped_column(primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"))
    """The workbench's model that the user named."""
    file: Mapped[str]
    digest: Mapped[str] = mapped_column(unique=True)
    tool: Mapped[str]
    version: Mapped[str]
    measured: Mapped[float | None]
    imported: Mapped[float]


class ImportedPoint(Table):
    """A configuration in an imported file."""

    __tablename__ = "imported_points"
    id: Mapped[int] = mapped_column(primary_key=True)
    file_id: Mapped[int] = mapped_column(ForeignKey("imported_files.id", ondelete="CASCADE"), index=True)
    point: Mapped[str]
    """JSON of `records.imports.ImportedPoint`."""
