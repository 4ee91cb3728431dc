"""Opens the window in a language that puts every text into brackets, and tells what of it can be seen.

A process of its own, since texts are also made while modules are imported. Prints JSON: how many texts in brackets can
be seen, and those that have words outside of brackets and are neither data nor names.
"""

import json
import re
from collections.abc import Iterator

from PySide6.QtCore import QTranslator
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QDockWidget, QLabel, QLineEdit, QTabBar, QWidget

WORDS = re.compile(r"\b[^\W\d_]\w{2,}")
KEYS = re.compile(r" \([^ ]+\)$")
"""A shortcut at the end of a tooltip."""
NAMES = {
    *("auto", "bfloat16", "float16", "float32", "float64", "cpu", "triton", "reference", "dispatched", "python"),
    *("torch", "int8", "int4"),
    *("topk", "threshold", "uniform", "greedy", "curves", "refine", "evolution", "marginal", "released", "step"),
    *("own", "variant", "WINA", "TEAL", "attention", "activations"),
    *("Uniform", "Greedy", "Curves", "Refine", "Evolution", "Marginal"),
    *("dense", "teal", "wina", "cats", "larosa", "rsparse", "scap", "transform", "free", "paper", "demo", "llama"),
    *(
        "none",
        "heads",
        "global",
        "per_layer",
        "per_site",
        "refined",
        "gate",
        "gate_up",
        "qkv",
        "norms",
        "folded",
        "log",
    ),
    *("native", "KiB", "MiB", "GiB", "SmolLM2", "Gemma"),
}
"""Of which the names of methods, rotations, allocators, data types, backends and units consist."""
ELIDED = re.compile(r"\w*\N{HORIZONTAL ELLIPSIS}\w*")
BY_QT = frozenset(("Close", "Float", "Undo", "Redo"))
"""Qt has translations of its own for these."""


class Brackets(QTranslator):
    """Translates "Quit" into "[Quit]"."""

    def isEmpty(self) -> bool:
        """Qt asks no translator that says that it has nothing."""
        return False

    def translate(self, context: str, source: str, disambiguation: str | None = None, n: int = -1) -> str | None:
        """The text in brackets; Qt's own texts, which have a context, as they are."""
        return None if context else f"[{disambiguation if n == 1 and disambiguation else source}]"


def texts(root: QWidget) -> Iterator[str]:
    """Everything with words that is said by a visible widget below."""
    for widget in (root, *root.findChildren(QWidget)):
        if not widget.isVisibleTo(root):
            continue
        yield widget.accessibleName()
        yield widget.toolTip()
        match widget:
            case QLabel() | QAbstractButton():
                yield widget.text()
            case QLineEdit():
                yield widget.placeholderText()
            case QDockWidget():
                yield widget.windowTitle()
            case QTabBar():
                yield from (widget.tabText(index) for index in range(widget.count()))
            case QComboBox():
                yield from (widget.itemText(index) for index in range(widget.count()))


def unbracketed(text: str) -> str:
    """What is left of a text without all that is in brackets, one in the other too."""
    while (shorter := re.sub(r"\[[^\[\]]*\]", "", text)) != text:
        text = shorter
    return text


def main() -> None:
    """Show every page, with a model and without anything else, and print what was found."""
    app = QApplication([])
    app.installTranslator(Brackets(app))
    from wina_app.application import Application
    from wina_app.pages import PAGES
    from wina_app.services.threads import EngineThread

    from tests.wina_app.fakes import FakeClient
    from tests.wina_app.stored_runs import SOURCE, summary

    application = Application(app, engine=EngineThread(FakeClient))
    window, seen, data = application.window, set(), known_data()
    window.confirm_quit = lambda: "cancel"

    def look() -> None:
        for key in PAGES:
            window.show_page(key)
            app.processEvents()
            seen.update(texts(window))

    def tour(url: str) -> None:
        data.add(url)
        try:
            look()
            application.workbench.workspace.set_model(SOURCE, summary())
            look()
            for action in window.menus.every():
                seen.update((action.text(), action.toolTip()))
        finally:
            window.close()

    application.start()
    application.workbench.store.ask(lambda store: str(store.url), tour)
    app.exec()
    said = {text for text in seen if WORDS.search(text)} - BY_QT - data
    bare = sorted(
        text for text in said if not set(WORDS.findall(ELIDED.sub("", KEYS.sub("", unbracketed(text))))) <= NAMES
    )
    print(json.dumps({"bracketed": len(said) - len(bare), "bare": bare}))


def known_data() -> set[str]:
    """What the core, the guide, the first of the shipped studies and the machine say; the same in every language."""
    from wina_app.pages.studies.study_state import facts
    from wina_app.services import guide

    from tests.wina_app.fakes import ENVIRONMENT
    from wina_core.specs import PREFILL_POLICIES
    from wina_core.studies.expand import unmapped
    from wina_core.studies.gallery import gallery

    entry = gallery()[0]
    return {
        *(term.text for term in guide.terms().values()),
        *PREFILL_POLICIES,
        *(text for _, text in facts(entry.study)),
        *(entry.title, entry.study.description, str(entry.file), entry.file.name),
        *(role.name for role in unmapped(entry.study)),
        f"{ENVIRONMENT.device}: {ENVIRONMENT.hardware}",
    }


if __name__ == "__main__":
    main()
