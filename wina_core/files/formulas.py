"""Texts in CSV and TSV, which spreadsheets must not take for formulas.

An exported script contains this file, so it imports the standard library alone.
"""

import re

_FORMULA = re.compile(r"""[\s"'\x00-\x20\ufeff\u200b]*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|(?<=[\t\r]))""")
"""Beginning of a formula, also in full width, after what a spreadsheet may skip; a tab and a CR split cells."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def neutralized(text: str) -> str:
    """Return a text with an apostrophe before it if a spreadsheet would compute it; plain numbers stay.

    `restored` takes exactly these apostrophes away again.
    """
    return f"'{text}" if _is_formula(text) else text


def restored(text: str) -> str:
    """Return the text that `neutralized` was given."""
    return text[1:] if text.startswith("'") and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
