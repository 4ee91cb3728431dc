"""A full disk for one database: SQLite itself refuses to let the file grow."""

from sqlalchemy import event

from wina_core.store import Store


def limit(store: Store, pages: int | None) -> None:
    """Let the database grow by so many pages and no more, or without end."""
    with store._engine.connect() as connection:
        now = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    most = 2**30 if pages is None else now + pages
    event.listen(store._engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {most}"))
    store._engine.dispose()
