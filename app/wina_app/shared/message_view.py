"""Inline messages of a page, as its controllers see them."""

from collections.abc import Callable
from typing import Protocol


class MessageView(Protocol):
    """View with one inline message."""

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show an error inline, with a Retry button if `retry` is given."""

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""

    def clear_message(self) -> None:
        """Hide the inline message."""
