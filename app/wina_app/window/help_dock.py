"""The Help dock: the user guide, its chapters, and a search through all of them."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QResizeEvent, QShowEvent, QTextBlock, QTextCursor, QTextDocument
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from wina_app.services import guide
from wina_app.style.theme import GRID, HALF, font, notifier
from wina_app.style.translation import tr
from wina_app.widgets.controls import text_label

_FIRST = "index.md"
_FIT_MS = 100
"""How long a width stays before pictures are scaled to it."""


class HelpView(QWidget):
    """Shows one chapter at a time; `show_topic("glossary.md#dense-prefix")` goes to a heading."""

    def __init__(self) -> None:
        super().__init__()
        self.chapters = QComboBox()
        self.chapters.setAccessibleName(tr("Chapter of the guide"))
        self.chapters.activated.connect(lambda: self.show_topic(self.chapters.currentData()))
        self.back = QPushButton(tr("Back"))
        self.back.setAccessibleName(tr("Back to the chapter before"))
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Find in the guide; Enter for the next place"))
        self.search.setClearButtonEnabled(True)
        self.search.setAccessibleName(tr("Find in the guide"))
        self.search.setToolTip(self.search.placeholderText())
        self.search.textEdited.connect(lambda: self._find(onward=False))
        self.search.returnPressed.connect(lambda: self._find(onward=True))
        self._remark = text_label("", "muted")
        self._remark.hide()
        self.text = _Chapter()
        self.text.setAccessibleName(tr("User guide"))
        self.text.anchorClicked.connect(self._follow)
        self.back.clicked.connect(self._go_back)
        self._visited: list[str] = []
        row = QHBoxLayout()
        row.setContentsMargins(GRID, HALF, GRID, HALF)
        row.setSpacing(GRID)
        row.addWidget(self.back)
        row.addWidget(self.chapters, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        found = QHBoxLayout()
        found.setContentsMargins(GRID, 0, GRID, HALF)
        found.addWidget(self.search, 1)
        found.addWidget(self._remark)
        column.addLayout(found)
        column.addWidget(self.text, 1)
        self._topic = ""
        self.back.setEnabled(False)
        notifier().changed.connect(self._restyle)

    def showEvent(self, event: QShowEvent) -> None:
        """Nothing is read before somebody looks, nor what is left again at once for what somebody asked for."""
        super().showEvent(event)
        QTimer.singleShot(0, self, self._begin)

    def _begin(self) -> None:
        if not self._topic:
            self.show_topic(_FIRST)

    @property
    def topic(self) -> str:
        """File and heading that were gone to last."""
        return self._topic

    def show_topic(self, topic: str) -> None:
        """Go to a chapter, or to a heading in it after a "#"; what the guide lacks leads to its beginning."""
        if self._topic:
            self._visited.append(self._topic)
            self.back.setEnabled(True)
        self._show(topic)

    def _show(self, topic: str) -> None:
        if not self.chapters.count():
            for file in _files():
                self.chapters.addItem(_title(file), file.name)
        name, _, heading = topic.partition("#")
        known = self.chapters.findData(name)
        if known < 0:
            name, heading, known = _FIRST, "", 0
        self._topic = topic
        self.chapters.setCurrentIndex(known)
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
        """Go to the next place with what was typed, through all chapters and round again."""
        wanted = self.search.text().strip()
        if not wanted:
            self._remark.hide()
            return
        if not onward:
            cursor = self.text.textCursor()
            cursor.setPosition(cursor.selectionStart())
            self.text.setTextCursor(cursor)
        here = max(self.chapters.currentIndex(), 0)
        found = self.text.find(wanted)
        for step in range(1, self.chapters.count() + 1):
            if found:
                break
            name = self.chapters.itemData((here + step) % self.chapters.count())
            if wanted.casefold() in (guide.folder() / name).read_text(encoding="utf-8").casefold():
                self._show(name)
                found = self.text.find(wanted)
        self._remark.setText("" if found else tr("Not found"))
        self._remark.setVisible(not found)

    def _restyle(self) -> None:
        if self._topic:
            self._show(self._topic)

    def sizeHint(self) -> QSize:
        """A column that reads well."""
        return QSize(GRID * 56, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        """Still readable."""
        return QSize(GRID * 32, GRID * 20)


class _Chapter(QTextBrowser):
    """Shows a Markdown file; its pictures come from the guide's folder and from nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setProperty("role", "guide")
        self._file = guide.folder() / _FIRST
        self._pictures: dict[str, QImage] = {}
        """Of the chapter, as they are in their files."""
        self._fitting = QTimer(self, singleShot=True, interval=_FIT_MS)
        self._fitting.timeout.connect(self._fit)

    def show_file(self, file: Path) -> None:
        """Show it from its beginning."""
        self._file, self._pictures = file, {}
        self.document().setDefaultFont(font())
        self.setMarkdown(file.read_text(encoding="utf-8"))
        self._space()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def _space(self) -> None:
        """Air between paragraphs, which Markdown's have none of in Qt."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()  # laid out once, not once for each block
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
        """Scroll until a heading, given by its anchor, is at the top."""
        block = self.document().firstBlock()
        while block.isValid():
            if _is_heading(block) and guide.anchor(block.text()) == heading:
                self.setTextCursor(QTextCursor(block))
                top = self.document().documentLayout().blockBoundingRect(block).top()
                self.verticalScrollBar().setValue(round(top))
                return
            block = block.next()

    def loadResource(self, kind: int, name: QUrl) -> Any:
        """A picture of the guide, no wider than the text."""
        path = (self._file.parent / name.toString()).resolve()
        if kind != QTextDocument.ResourceType.ImageResource.value or not path.is_relative_to(guide.folder().parent):
            return None
        if name.toString() not in self._pictures:
            self._pictures[name.toString()] = QImage(str(path))
        return self._fitted(self._pictures[name.toString()])

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The pictures follow the width, once it stays."""
        super().resizeEvent(event)
        if self._pictures and event.size().width() != event.oldSize().width():
            self._fitting.start()

    def _fit(self) -> None:
        kind = QTextDocument.ResourceType.ImageResource.value
        for name, picture in self._pictures.items():
            self.document().addResource(kind, QUrl(name), self._fitted(picture))
        self.document().markContentsDirty(0, self.document().characterCount())

    def _fitted(self, picture: QImage) -> QImage:
        """No wider than the text, with all the pixels that the screen has for it."""
        ratio = self.devicePixelRatioF()
        width = round(ratio * max(self.viewport().width() - 4 * GRID, 20 * GRID))
        fitted = picture.scaledToWidth(min(width, picture.width()), Qt.TransformationMode.SmoothTransformation)
        fitted.setDevicePixelRatio(ratio)
        return fitted


def _is_heading(block: QTextBlock) -> bool:
    return block.blockFormat().headingLevel() > 0


def _files() -> list[Path]:
    """The chapters in the order in which the index links to them, the index first."""
    index = guide.folder() / _FIRST
    text = index.read_text(encoding="utf-8")
    others = sorted(
        (file for file in guide.folder().glob("*.md") if file.name != _FIRST),
        key=lambda file: (text.find(f"({file.name}") % (len(text) + 1), file.name),
    )
    return [index, *others]


def _title(file: Path) -> str:
    """Its first heading."""
    return file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
