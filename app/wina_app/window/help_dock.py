"""The Help dock: the chapters of the user guide, with a search."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QShowEvent, QTextBlock, QTextCursor, QTextDocument
from PySide6.QtWidgets import QLineEdit, QTextBrowser, QWidget

from wina_app.services import guide
from wina_app.style.theme import GRID, HALF, font, notifier
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.fields import choices

_FIRST = "index.md"


class HelpView(QWidget):
    """A view of one chapter at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.chapters = choices(name="Chapter of the guide")
        self.chapters.activated.connect(lambda: self.show_topic(self.chapters.currentData()))
        self.back = push_button("Back", self._go_back, name="Back to the previous chapter")
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search the guide; Enter for the next match")
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName("Search the guide")
        self.search.setToolTip(self.search.placeholderText())
        self.search.textEdited.connect(lambda: self._find(onward=False))
        self.search.returnPressed.connect(lambda: self._find(onward=True))
        self._remark = text_label("", "muted")
        self._remark.hide()
        self.text = _Chapter()
        self.text.setAccessibleName("User guide")
        self.text.anchorClicked.connect(self._follow)
        self._visited: list[str] = []
        row = hbox(None, self.back, (self.chapters, 1), margins=(GRID, HALF, GRID, HALF))
        search_row = hbox(None, (self.search, 1), self._remark, margins=(GRID, 0, GRID, HALF))
        vbox(self, row, search_row, (self.text, 1), spacing=0)
        self._topic = ""
        self.back.setEnabled(False)
        notifier().changed.connect(self._restyle)

    def showEvent(self, event: QShowEvent) -> None:
        """Read the first chapter when the dock is first shown without a topic."""
        super().showEvent(event)
        QTimer.singleShot(0, self, self._begin)  # after a topic that is requested with the dock

    def _begin(self) -> None:
        if not self._topic:
            self.show_topic(_FIRST)

    @property
    def topic(self) -> str:
        return self._topic

    def show_topic(self, topic: str) -> None:
        """Show a chapter, or a heading after a "#" as in "glossary.md#dense-prefix"; show the index if unknown."""
        if self._topic:
            self._visited.append(self._topic)
            self.back.setEnabled(True)
        self._show(topic)

    def _show(self, topic: str) -> None:
        if not self.chapters.count():
            for file in _files():
                self.chapters.addItem(_title(file), file.name)
        name, _, heading = topic.partition("#")
        index = self.chapters.findData(name)
        if index < 0:
            name, heading, index = _FIRST, "", 0
        self._topic = topic
        self.chapters.setCurrentIndex(index)
        self.chapters.setToolTip(self.chapters.currentText())
        self.text.show_file(guide.folder() / name)
        if heading:
            self.text.go_to(heading)

    def _go_back(self) -> None:
        if self._visited:
            self._show(self._visited.pop())
        self.back.setEnabled(bool(self._visited))

    def _follow(self, link: QUrl) -> None:
        if link.scheme() in ("http", "https"):
            QDesktopServices.openUrl(link)
            return
        name = link.path().rpartition("/")[2] or self._topic.partition("#")[0]
        self.show_topic(f"{name}#{link.fragment()}" if link.hasFragment() else name)

    def _find(self, onward: bool) -> None:
        """Go to the next match, through all chapters in a circle."""
        text = self.search.text().strip()
        if not text:
            self._remark.hide()
            return
        if not onward:
            cursor = self.text.textCursor()
            # While the user types, the match grows: search again from its start, not from its end.
            cursor.setPosition(cursor.selectionStart())
            self.text.setTextCursor(cursor)
        current = max(self.chapters.currentIndex(), 0)
        matched = self.text.find(text)
        for step in range(1, self.chapters.count() + 1):
            if matched:
                break
            name = self.chapters.itemData((current + step) % self.chapters.count())
            if text.casefold() in (guide.folder() / name).read_text(encoding="utf-8").casefold():
                self._show(name)
                matched = self.text.find(text)
        self._remark.setText("" if matched else "Not found")
        self._remark.setVisible(not matched)

    def _restyle(self) -> None:
        if self._topic:
            self._show(self._topic)

    def sizeHint(self) -> QSize:
        return QSize(GRID * 56, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        return QSize(GRID * 32, GRID * 20)


class _Chapter(QTextBrowser):
    """A view of a Markdown file, with pictures from the folder of the guide only."""

    def __init__(self) -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setProperty("role", "guide")
        self._file = guide.folder() / _FIRST

    def show_file(self, file: Path) -> None:
        """Show a file from its beginning."""
        self._file = file
        self.document().setDefaultFont(font())
        self.setMarkdown(file.read_text(encoding="utf-8"))
        self._space()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def _space(self) -> None:
        """Add space between paragraphs, which Qt leaves out for Markdown."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()  # lays out once, not for each block
        block = self.document().firstBlock()
        while block.isValid():
            cursor.setPosition(block.position())
            if block.textList() is None and cursor.currentTable() is None:
                spaced = block.blockFormat()
                spaced.setTopMargin(2 * GRID if _is_heading(block) else 0)
                spaced.setBottomMargin(GRID)
                cursor.setBlockFormat(spaced)
            block = block.next()
        cursor.endEditBlock()

    def go_to(self, heading: str) -> None:
        """Scroll to a heading given by its anchor."""
        block = self.document().firstBlock()
        while block.isValid():
            if _is_heading(block) and guide.anchor(block.text()) == heading:
                self.setTextCursor(QTextCursor(block))
                top = self.document().documentLayout().blockBoundingRect(block).top()
                self.verticalScrollBar().setValue(round(top))
                return
            block = block.next()

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Return a picture of the guide, no wider than the text."""
        name = name if isinstance(name, str) else name.toString()
        path = (self._file.parent / name).resolve()
        if kind != QTextDocument.ResourceType.ImageResource.value or not path.is_relative_to(guide.folder().parent):
            return None
        picture = QImage(str(path))
        ratio = self.devicePixelRatioF()
        width = round(ratio * max(self.viewport().width() - 4 * GRID, 20 * GRID))
        fitted = picture.scaledToWidth(min(width, picture.width()), Qt.TransformationMode.SmoothTransformation)
        fitted.setDevicePixelRatio(ratio)
        return fitted


def _is_heading(block: QTextBlock) -> bool:
    return block.blockFormat().headingLevel() > 0


def _files() -> list[Path]:
    """Return the index and then the chapters in the order of its links."""
    index = guide.folder() / _FIRST
    text = index.read_text(encoding="utf-8")
    chapters = sorted(
        (file for file in guide.folder().glob("*.md") if file.name != _FIRST),
        # A chapter without a link is found at -1, which the modulo moves to the end.
        key=lambda file: (text.find(f"({file.name}") % (len(text) + 1), file.name),
    )
    return [index, *chapters]


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
