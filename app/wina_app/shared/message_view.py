"""Messages of a page, as its controllers see them."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class MessageView(Protocol):
    """View with one message."""

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show an error until it is withdrawn, with a Retry button if `retry` is given."""

    def show_notice(self, text: str) -> None:
        """Show a remark for a while."""

    def show_saved(self, path: Path, text: str = "") -> None:
        """Report a saved file or folder by its name, or by `text`, with a button that opens its folder."""

    def clear_message(self) -> None:
        """Withdraw the message: it is no longer true."""
