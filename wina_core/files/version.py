"""The versions of the program and of its messages."""

from typing import Final

__version__ = "0.2.0"
PROTOCOL: Final = 1
"""Version of the messages between processes; an engine on another machine must have the same."""
