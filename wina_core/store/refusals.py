"""Errors of databases in the user's words, and which of them may pass."""

import errno

from wina_core.errors import WinaError

_FULL = "The disk that holds {database} is full or failing; free some space and try again, stored results are safe."
_NO_VALUE = "The results database {database} cannot hold a value ({reason})."
_REFUSED = "The results database {database} refuses this ({reason}); "
_UNREACHABLE = (
    "The results database {database} cannot be reached ({reason}); check its address, its server and WINA_DATABASE."
)
_POSTGRES = {
    "08": _UNREACHABLE,
    "28": "The results database {database} refuses this user or password ({reason}); check the user in the address, "
    "and the password by WINA_DATABASE_PASSWORD.",
    "3D": "The server has no such results database {database} ({reason}); have it created, or check the name.",
    "3F": _REFUSED + "check search_path, or have a schema made with CREATE SCHEMA.",
    "40": "Another program writes to {database} at the same time; try again.",
    "42501": _REFUSED + "its owner can allow it with GRANT, for new tables GRANT CREATE ON SCHEMA public.",
    "55P03": "Another program keeps {database} locked; close it and try again.",
    "57": _UNREACHABLE,
    **dict.fromkeys(("25", "53", "58"), _REFUSED + "try again later, and see the server's log."),
}
"""Sentences on refusals that may pass, by the beginning of PostgreSQL's code of the error."""
_POSTGRES_CONTENT = {
    "22": _NO_VALUE,
    "23502": _NO_VALUE,
    "42P01": "The results database {database} lacks a table ({reason}); restore it from a backup.",
    "42703": "The results database {database} lacks a column ({reason}); restore it from a backup.",
}
"""Sentences on errors that stay, likewise."""
_SERVER_WORDS = {"password": "28", "authentication": "28", "role": "28", "pg_hba": "28", "database": "3D"}
"""Codes of refused connections by a word of the server's text: the driver gives no code."""


class UnwritableError(WinaError):
    """Refusal of a write that may succeed later: a full, failing or read-only disk, a locked or distant database."""


def unwritable(file: object, error: OSError) -> UnwritableError:
    """Return the error for a database beside which a file cannot be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return UnwritableError(_FULL.format(database=file))
    return UnwritableError(
        f"The results database {file} cannot be written ({error.strerror}); make its folder writable or set "
        "WINA_DATABASE to a file elsewhere."
    )


def damaged(database: object, fault: str = "") -> str:
    damage = f" ({fault})" if fault else ""
    return f"The results database {database} is damaged{damage}; put one of the backups beside it in its place."


def explain_sqlite(reason: str, database: object) -> WinaError | None:
    """Return the error for a reason that SQLite gives; None for a defect of the program."""
    lower = reason.lower()
    if "not a database" in lower:
        return WinaError(f"{database} is not a results database; move it away or set WINA_DATABASE to another file.")
    if "could not decode" in lower:
        return WinaError(damaged(database, "it has text that is not UTF-8"))
    if "too big" in lower:
        return WinaError(damaged(database, "it has a value of more than 64 MiB"))
    if "malformed" in lower or "no such table" in lower or "no such column" in lower:
        return WinaError(damaged(database))
    if "unable to open" in lower or "readonly" in lower:
        return UnwritableError(
            f"The results database {database} cannot be written; make its folder writable or set WINA_DATABASE to a "
            "file elsewhere."
        )
    if "disk is full" in lower or "disk i/o error" in lower:
        return UnwritableError(_FULL.format(database=database))
    if "not null constraint" in lower or "too large to convert" in lower:
        return WinaError(_NO_VALUE.format(database=database, reason=reason))
    if "locked" in lower:
        return UnwritableError(f"Another program keeps {database} locked; close it and try again.")
    return None


def explain_postgres(error: BaseException, database: str, *, broken: bool) -> WinaError | None:
    """Return the error for one of psycopg's; None for a defect of the program. `broken`: the connection ended."""
    lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    reason = lines[0].rpartition("FATAL:")[2].strip()
    code = getattr(error, "sqlstate", None) or ""
    if not code and type(error).__name__ == "OperationalError":
        # "the database system is starting up" has a word of a refusal, but passes.
        refused = ("FATAL:" in lines[0] and "the database system is" not in reason) or "no password" in reason
        code = next((code for word, code in _SERVER_WORDS.items() if refused and word in reason), "08")
    if not code and "connection option" in reason:  # one that its address names
        code = "08"
    for sentences, kind in ((_POSTGRES, UnwritableError), (_POSTGRES_CONTENT, WinaError)):
        for start in (code, code[:2]):
            if start and start in sentences:
                return kind(sentences[start].format(database=database, reason=reason))
    return UnwritableError(_UNREACHABLE.format(database=database, reason=reason)) if broken else None
