"""Translation of the window's texts: `pyside6-lupdate` collects the arguments of `tr`."""

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from wina_core.files.paths import resources_folder


def tr(text: str, one: str = "", n: int = -1, /, **values: object) -> str:
    """Translate a text and replace its {names} by `values`.

    `text` must be a literal for lupdate to find it, not an f-string. The sources are in English, the only language
    shipped. If a number decides the form, `text` is the plural, `one` the singular and `n` the number, which replaces
    {n}: tr("{n} runs", "{n} run", 3). A translation has the forms of its language.
    """
    translated = QCoreApplication.translate("", text, one, n)
    if n >= 0:
        values["n"] = f"{n:,}"
        # Without a translation Qt returns the plural for every number.
        translated = one if n == 1 and translated == text else translated
    return translated.format(**values) if values else translated


def install(app: QCoreApplication, locale: QLocale | None = None) -> None:
    """Load the translation for the desktop's language, or for `locale`, if there is one.

    Translations are files wina_<locale>.qm in the folder `translations` of the resources. Call this before importing
    modules of the window, since some translate texts at import.
    """
    locale, texts = locale or QLocale(), QTranslator(app)
    if not texts.load(locale, "wina", "_", str(resources_folder() / "translations")):
        return
    qt_texts = QTranslator(app)  # the buttons of Qt's own dialogs
    if qt_texts.load(locale, "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        app.installTranslator(qt_texts)
    app.installTranslator(texts)
