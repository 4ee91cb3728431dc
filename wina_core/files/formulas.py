"""Texts in CSV and TSV, which spreadsheets must not take for formulas."""

import re

_FORMULA = re.compile(r"""[\s"'\x00-\x20\ufeff\u200b]*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|(?<=[\t\r]))""")
"""Beginning of a formula, also in full width, after what a spreadsheet may skip; a tab and a CR split cells."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def neutralized(text: str) -> str:
    """Return a text with an apostrophe before it if a spreadsheet would compute it; plain numbers stay."""
    is_formula = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text
