"""Reading, adding and removing of imported files."""

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert, select

from wina_core.errors import WinaError
from wina_core.records.imports import ImportedFile, ImportedPoint, StoredImport
from wina_core.records.texts import moment
from wina_core.specs import ModelSource
from wina_core.store.tables import ImportedFileTable, ImportedPointTable, ModelTable


def read_imports(connection: Connection) -> list[StoredImport]:
    """Return all imported files, the last imported first, each with its points in the order of the file."""
    points: dict[int, list[ImportedPoint]] = {}
    for row in connection.execute(
        select(ImportedPointTable.file_id, ImportedPointTable.point).order_by(ImportedPointTable.id)
    ):
        points.setdefault(row.file_id, []).append(ImportedPoint.model_validate_json(row.point))
    query = select(ImportedFileTable, ModelTable.label, ModelTable.location, ModelTable.hash, ModelTable.spec)
    query = query.join(ModelTable, ModelTable.id == ImportedFileTable.model_id).order_by(ImportedFileTable.id.desc())
    return [
        StoredImport(
            id=row.id,
            content=ImportedFile(
                file=row.file, digest=row.digest, tool=row.tool, version=row.version, measured=row.measured,
                points=tuple(points.get(row.id, ())),
            ),
            model=row.label, location=row.location, model_hash=row.hash,
            fingerprint=ModelSource.model_validate_json(row.spec).fingerprint, imported=row.imported,
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def check_new(connection: Connection, file: ImportedFile) -> None:
    """Raise WinaError for a file whose content is stored."""
    query = select(ImportedFileTable.id, ImportedFileTable.file, ImportedFileTable.imported, ModelTable.label).where(
        ImportedFileTable.digest == file.digest
    )
    stored = connection.execute(query.join(ModelTable, ModelTable.id == ImportedFileTable.model_id)).first()
    if stored is not None:
        raise WinaError(
            f'{file.file} was imported already, on {moment(stored.imported)} as number {stored.id} ("{stored.file}") '
            f'for the model "{stored.label}"; remove that import first to match the file to another model.'
        )


def add_import(connection: Connection, file: ImportedFile, model_id: int, imported: float) -> int:
    """Store a file with its points, and return its id. Raises WinaError for a file whose content is stored."""
    check_new(connection, file)
    row = file.model_dump(exclude={"points"}) | {"model_id": model_id, "imported": imported}
    key = connection.execute(insert(ImportedFileTable).values(row)).inserted_primary_key
    assert key is not None
    points = [{"file_id": key[0], "point": point.model_dump_json()} for point in file.points]
    connection.execute(insert(ImportedPointTable), points)
    return int(key[0])


def remove_imports(connection: Connection, ids: Collection[int]) -> None:
    """Remove imported files with their points; raise WinaError for an id that is not stored, and remove none."""
    stored_ids = set(connection.scalars(select(ImportedFileTable.id)))
    for unknown in set(ids) - stored_ids:
        stored = f"stored ones: {', '.join(map(str, sorted(stored_ids)))}" if stored_ids else "none is stored"
        raise WinaError(f"There is no import number {unknown}; {stored}.")
    connection.execute(delete(ImportedPointTable).where(ImportedPointTable.file_id.in_(ids)))
    connection.execute(delete(ImportedFileTable).where(ImportedFileTable.id.in_(ids)))
