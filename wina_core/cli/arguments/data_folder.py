"""The data folder of a command, in which texts such as data:wikitext lie."""

from contextvars import ContextVar

_CHOSEN: ContextVar[str | None] = ContextVar("data folder of a command", default=None)


def choose_data_folder(folder: str | None) -> str | None:
    """Keep the answer of `--data-folder` for `chosen_data_folder`."""
    _CHOSEN.set(folder)
    return folder


def chosen_data_folder() -> str | None:
    """Return the data folder of the command; None without one."""
    return _CHOSEN.get()
