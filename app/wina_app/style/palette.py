"""Colours and sizes of the light and the dark appearance."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """Colours "#rrggbb" and font sizes in pixels of one appearance."""

    dark: bool
    window: str
    """Background of rail, docks and headers."""
    surface: str
    """Background of pages, tables and plots."""
    raised: str
    """Background of controls and table headers."""
    line: str
    """Hairlines between areas."""
    border: str
    """Outlines of controls, 3:1 against the surface."""
    text: str
    muted: str
    """Secondary text, still 4.5:1."""
    disabled: str
    accent: str
    on_accent: str
    accent_soft: str
    """Background of selections."""
    running: str
    done: str
    failed: str
    failed_soft: str
    warning: str
    grid: str
    """Grid lines of plots."""
    dense: str
    """Neutral colour of the dense reference in plots."""
    small: int = 12
    body: int = 13
    title: int = 16


LIGHT = Tokens(
    dark=False,
    window="#f3f4f6",
    surface="#ffffff",
    raised="#fafbfc",
    line="#dfe2e7",
    border="#8b929c",
    text="#1b1f24",
    muted="#59616c",
    disabled="#9aa1ab",
    accent="#1769aa",
    on_accent="#ffffff",
    accent_soft="#dcebf7",
    running="#1769aa",
    done="#1f7a4d",
    failed="#b3261e",
    failed_soft="#fbeae9",
    warning="#8a5a00",
    grid="#e6e8ec",
    dense="#59616c",
)
DARK = Tokens(
    dark=True,
    window="#15181c",
    surface="#1c2025",
    raised="#262b31",
    line="#343a42",
    border="#717985",
    text="#e6e9ed",
    muted="#a3abb6",
    disabled="#6b737e",
    accent="#6cb6f0",
    on_accent="#0d1a26",
    accent_soft="#21394d",
    running="#6cb6f0",
    done="#63c592",
    failed="#ff8a80",
    failed_soft="#43211f",
    warning="#e9b44c",
    grid="#2e343b",
    dense="#a3abb6",
)
