"""Settings of a server and texts of its state."""

from pathlib import Path

from wina_app.services.model_server import ServerState
from wina_app.style.translation import tr


def status_text(state: ServerState) -> str:
    """Return the text of the window's status line; empty while no server runs."""
    return tr("Serving {model}", model=Path(state.folder).name) if state.folder else ""


def state_text(state: ServerState) -> str:
    """Return the status line of a server."""
    if not state.folder:
        return tr("No server runs.")
    if state.stopping:
        return tr("Finishing the last answer…")
    if state.listening is None:
        return tr("Loading {folder}…", folder=state.folder)
    return f"{state.listening.address}, {counts_text(state)}"


def counts_text(state: ServerState) -> str:
    """Describe what a server has answered."""
    counts = [tr("{n} requests", "{n} request", state.requests)]
    if state.refused:
        counts.append(tr("{n} refused", n=state.refused))
    if state.rate is not None:
        counts.append(tr("{rate} tokens/s", rate=f"{state.rate:,.1f}"))
    return ", ".join(counts)
