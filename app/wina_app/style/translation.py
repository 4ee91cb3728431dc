"""The window's texts, ready for translation: `pyside6-lupdate` collects what `tr` is called with."""

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from wina_core.files.paths import resources_folder


def tr(text: str, one: str = "", n: int = -1, /, **values: object) -> str:
    """The text in the language of the window, with `values` in place of its {names}.

    `text` must be a literal, which is what lupdate can read; not an f-string. English, the one language shipped, is
    what the program's sources say, so that there is nothing to load for it.

    Where a number decides the form, `text` is what is said of many, `one` what is said of one, and `n` the number,
    which is their {n}: tr("{n} runs", "{n} run", 3). A translation has as many forms as its language.
    """
    translated = QCoreApplication.translate("", text, one, n)
    if n >= 0:
        values["n"] = f"{n:,}"
        translated = one if n == 1 and translated == text else translated
    return translated.format(**values) if values else translated


def install(app: QCoreApplication, locale: QLocale | None = None) -> None:
    """Show all texts from now on in the language of the desktop, or of another locale, where there is a translation.

    A translation is a file wina_<locale>.qm in the folder `translations` of the resources. Texts that are made while
    modules are imported stay in the language of that moment, so that this comes before the window's modules.
    """
    locale, texts = locale or QLocale(), QTranslator(app)
    if not texts.load(locale, "wina", "_", str(resources_folder() / "translations")):
        return
    own = QTranslator(app)  # the buttons of Qt's own dialogs
    if own.load(locale, "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        app.installTranslator(own)
    app.installTranslator(texts)
