"""The window's texts, ready for translation: `pyside6-lupdate` collects what `tr` is called with."""

from PySide6.QtCore import QCoreApplication


def tr(text: str, **values: object) -> str:
    """The text in the language of the window, with `values` in place of its {names}.

    `text` must be a literal, which is what lupdate can read; not an f-string. English, the one language shipped, is
    what the program's sources say, so that there is nothing to load for it.
    """
    translated = QCoreApplication.translate("", text)
    return translated.format(**values) if values else translated
