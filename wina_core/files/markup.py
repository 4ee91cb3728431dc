"""Texts in LaTeX and Markdown, in which no character of a name has a meaning."""

import re

_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""Underscores within a word and ampersands without a semicolon mean themselves."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Line ends among them."""


def latex_text(text: str) -> str:
    r"""Escape any text for LaTeX, in one line. A bracket or star at its beginning is no option of the `\\` before."""
    escaped = "".join(_LATEX.get(character, character) for character in _CONTROL.sub(" ", text))
    return f"{{}}{escaped}" if escaped[:1] in ("[", "*") and escaped else escaped


def markdown_text(text: str) -> str:
    """Escape any text for a cell of a Markdown table, in one line."""
    return _MARKDOWN.sub(r"\\\g<0>", _CONTROL.sub(" ", text))
