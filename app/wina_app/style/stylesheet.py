"""Colours and sizes of the light and the dark appearance, and the Qt style sheet on top of the Fusion style."""

from dataclasses import dataclass

from wina_core.files.paths import resources_folder


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


def stylesheet(t: Tokens) -> str:
    """Return the style sheet for the given tokens."""
    icons = (resources_folder() / "icons").as_posix()
    shade = "dark" if t.dark else "light"
    line, mark, help_mark = round(18 / 13 * t.body), round(14 / 13 * t.body), t.small + 2
    return f"""
    QToolTip {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; padding: 4px; }}
    QLabel[role="title"] {{ font-size: {t.title}px; font-weight: 600; }}
    QLabel[role="section"] {{ font-size: {t.body}px; font-weight: 600; }}
    QLabel[role="muted"] {{ color: {t.muted}; font-size: {t.small}px; }}
    QLabel[role="figure"] {{ color: {t.text}; font-size: {t.title}px; }}
    QLabel[role="failed"] {{ color: {t.failed}; font-size: {t.small}px; }}
    QLabel[role="warning"] {{ color: {t.warning}; font-size: {t.small}px; }}

    QWidget[role="surface"], QScrollArea, QScrollArea > QWidget > QWidget[role="surface"] {{
        background: {t.surface}; border: none; }}
    QWidget[role="header"] {{ background: {t.surface}; border-bottom: 1px solid {t.line}; }}
    QWidget[role="rail"] {{ background: {t.window}; border-right: 1px solid {t.line}; }}
    QLabel[role="problem"] {{ background: {t.failed_soft}; color: {t.failed}; font-size: {t.small}px; padding: 2px; }}
    QFrame[role="error"] {{ background: {t.failed_soft}; border: 1px solid {t.failed};
        border-left: 3px solid {t.failed}; }}
    QFrame[role="notice"] {{ background: {t.accent_soft}; border: 1px solid {t.accent};
        border-left: 3px solid {t.accent}; }}
    QFrame[role="overlay"] {{ background: {t.surface}; border: 1px solid {t.border}; border-radius: 6px; }}
    QFrame[role="card"] {{ background: {t.raised}; border: 1px solid {t.line}; border-radius: 6px; }}
    QFrame[role="rule"] {{ background: {t.line}; border: none; max-height: 1px; min-height: 1px; }}

    QPushButton {{ background: {t.raised}; color: {t.text}; border: 1px solid {t.border}; border-radius: 4px;
        padding: 4px 12px; min-height: {line}px; }}
    QPushButton:hover {{ background: {t.accent_soft}; }}
    QPushButton:pressed {{ background: {t.line}; }}
    QPushButton:checked {{ background: {t.accent_soft}; border-color: {t.accent}; }}
    QPushButton:focus {{ border: 2px solid {t.accent}; padding: 3px 11px; }}
    QPushButton:disabled {{ color: {t.disabled}; border-color: {t.line}; background: {t.window}; }}
    QPushButton[role="primary"] {{ background: {t.accent}; color: {t.on_accent}; border-color: {t.accent};
        font-weight: 600; }}
    QPushButton[role="primary"]:focus {{ border: 2px solid {t.text}; }}
    QPushButton[role="primary"]:disabled {{ background: {t.line}; color: {t.muted}; border-color: {t.line}; }}
    QPushButton[role="link"] {{ background: transparent; border: 1px solid transparent; color: {t.muted};
        padding: 2px 4px; text-align: left; font-size: {t.small}px; }}
    QPushButton[role="link"]:hover {{ color: {t.accent}; text-decoration: underline; }}
    QPushButton[role="link"]:focus {{ border: 2px solid {t.accent}; padding: 1px 3px; }}

    QToolButton {{ border: 1px solid transparent; border-radius: 4px; padding: 4px; color: {t.text}; }}
    QToolButton:hover {{ background: {t.accent_soft}; }}
    QToolButton:checked {{ background: {t.accent_soft}; }}
    QToolButton:focus {{ border: 2px solid {t.accent}; padding: 3px; }}
    QToolButton:disabled {{ color: {t.disabled}; }}
    QToolButton[role="rail-button"] {{ border-radius: 6px; padding: 4px 2px; color: {t.muted};
        font-size: {t.small}px; }}
    QToolButton[role="rail-button"]:checked {{ background: {t.accent_soft}; color: {t.text}; }}
    QToolButton[role="rail-button"]:focus {{ border: 2px solid {t.accent}; padding: 3px 1px; }}

    QToolButton[role="help"] {{ color: {t.muted}; border: 1px solid {t.border}; padding: 0;
        border-radius: {help_mark // 2 + 1}px;
        min-width: {help_mark}px; max-width: {help_mark}px; min-height: {help_mark}px; max-height: {help_mark}px;
        font-size: {t.small - 2}px; }}
    QToolButton[role="help"]:hover {{ color: {t.accent}; border-color: {t.accent}; }}
    QToolButton[role="help"]:focus {{ color: {t.accent}; border: 2px solid {t.accent}; padding: 0; }}
    QTextBrowser[role="guide"] {{ border: none; border-top: 1px solid {t.line}; border-radius: 0; padding: 8px; }}

    QToolButton[popupMode="2"] {{ padding-right: 20px; }}
    QToolButton::menu-indicator {{ image: url("{icons}/chevron-down-{shade}.svg"); width: 12px; height: 12px;
        subcontrol-origin: padding; subcontrol-position: right center; right: 4px; }}
    QToolButton[role="collapsible"] {{ font-weight: 600; padding: 4px 4px 4px 0; }}
    QToolButton[role="collapsible"]:checked {{ background: transparent; }}
    QToolButton[role="collapsible"]:hover {{ color: {t.accent}; }}
    QToolButton[role="collapsible"]:focus {{ padding: 3px 3px 3px 0; }}

    QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {{ background: {t.surface};
        color: {t.text}; border: 1px solid {t.border}; border-radius: 4px; padding: 3px 6px; min-height: {line}px;
        selection-background-color: {t.accent}; selection-color: {t.on_accent}; placeholder-text-color: {t.muted}; }}
    QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus {{
        border: 2px solid {t.accent}; padding: 2px 5px; }}
    QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled {{ color: {t.disabled};
        border-color: {t.line}; background: {t.window}; }}
    QLineEdit[state="invalid"] {{ border-color: {t.failed}; }}
    QAbstractSpinBox QLineEdit {{ border: none; background: transparent; min-height: 0; }}
    QComboBox {{ combobox-popup: 0; qproperty-maxVisibleItems: 40; }}
    QComboBox::drop-down {{ border: none; width: 20px; }}
    QComboBox::down-arrow {{ image: url("{icons}/chevron-down-{shade}.svg"); width: 14px; height: 14px; }}
    QSpinBox::up-button, QDoubleSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::down-button {{
        border: none; background: transparent; width: 18px; }}
    QSpinBox::up-button:hover, QDoubleSpinBox::up-button:hover, QSpinBox::down-button:hover,
    QDoubleSpinBox::down-button:hover {{ background: {t.accent_soft}; }}
    QSpinBox::up-arrow, QDoubleSpinBox::up-arrow {{
        image: url("{icons}/chevron-up-{shade}.svg"); width: 12px; height: 12px; }}
    QSpinBox::down-arrow, QDoubleSpinBox::down-arrow {{
        image: url("{icons}/chevron-down-{shade}.svg"); width: 12px; height: 12px; }}
    QComboBox QAbstractItemView {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border};
        padding: 3px 4px;
        selection-background-color: {t.accent_soft}; selection-color: {t.text}; }}

    QCheckBox, QRadioButton {{ spacing: 8px; padding: 2px; border: 1px solid transparent; border-radius: 4px; }}
    QCheckBox:focus, QRadioButton:focus {{ border: 2px solid {t.accent}; padding: 1px; }}

    QCheckBox::indicator, QRadioButton::indicator, QAbstractItemView::indicator {{ width: {mark}px; height: {mark}px;
        border: 1px solid {t.border}; background: {t.surface}; }}
    QCheckBox::indicator, QAbstractItemView::indicator {{ border-radius: 3px; }}
    QRadioButton::indicator {{ border-radius: {mark // 2 + 1}px; }}
    QCheckBox::indicator:checked, QAbstractItemView::indicator:checked {{ background: {t.accent};
        border-color: {t.accent}; image: url("{icons}/check-{shade}.svg"); }}
    QRadioButton::indicator:checked {{ background: qradialgradient(cx: 0.5, cy: 0.5, radius: 0.5, fx: 0.5, fy: 0.5,
        stop: 0 {t.on_accent}, stop: 0.38 {t.on_accent}, stop: 0.46 {t.accent}, stop: 1 {t.accent});
        border-color: {t.accent}; }}
    QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {{ border-color: {t.line}; }}
    QCheckBox::indicator:checked:disabled, QRadioButton::indicator:checked:disabled {{ background: {t.disabled};
        border-color: {t.disabled}; }}

    QAbstractItemView {{ background: {t.surface}; alternate-background-color: {t.raised}; color: {t.text};
        border: 1px solid {t.line}; gridline-color: {t.line}; selection-background-color: {t.accent_soft};
        selection-color: {t.text}; }}
    QAbstractItemView:focus {{ border: 2px solid {t.accent}; }}
    QTableView::item {{ padding: 0 8px; }}
    QTableView[role="matrix"]::item {{ padding: 0 2px; }}
    QTableView[role="matrix"] QHeaderView::section {{ padding: 4px 2px; }}
    QHeaderView {{ background: {t.surface}; border: none; }}
    QHeaderView::section {{ background: {t.surface}; color: {t.muted}; border: none; padding: 4px 8px;
        font-size: {t.small}px; }}
    QHeaderView::section:horizontal {{ border-bottom: 1px solid {t.line}; }}
    QTableCornerButton::section {{ background: {t.surface}; border: none; border-bottom: 1px solid {t.line}; }}

    QPlainTextEdit[role="plain"] {{ border: none; border-radius: 0; padding: 4px 12px;
        border-top: 1px solid {t.line}; }}
    QPlainTextEdit[role="plain"]:focus {{ border: 2px solid {t.accent}; padding: 2px 10px; }}

    QSlider {{ min-height: {mark + 6}px; }}
    QSlider::groove:horizontal {{ background: {t.line}; height: 4px; border-radius: 2px; }}
    QSlider::sub-page:horizontal {{ background: {t.accent}; border-radius: 2px; }}
    QSlider::handle:horizontal {{ background: {t.surface}; border: 2px solid {t.border}; width: {mark - 2}px;
        margin: -{mark // 2 - 1}px 0; border-radius: {mark // 2}px; }}
    QSlider::handle:horizontal:hover {{ border-color: {t.accent}; }}
    QSlider::handle:horizontal:focus {{ background: {t.accent}; border-color: {t.text}; }}
    QSlider::sub-page:horizontal:disabled {{ background: {t.line}; }}
    QSlider::handle:horizontal:disabled {{ border-color: {t.line}; background: {t.window}; }}

    QProgressBar {{ background: {t.line}; border: none; border-radius: 3px; text-align: center; color: {t.text};
        min-height: 6px; max-height: 6px; }}
    QProgressBar::chunk {{ background: {t.running}; border-radius: 3px; }}

    QSplitter::handle {{ background: {t.line}; }}
    QSplitter::handle:horizontal {{ width: 1px; }}
    QSplitter::handle:vertical {{ height: 1px; }}
    QWidget[role="dock-bar"] {{ background: {t.window}; border-top: 1px solid {t.line}; }}
    QWidget[role="dock-bar"] QLabel, QWidget[role="dock-bar"] QToolButton {{ font-size: {t.small}px; }}
    QDockWidget {{ color: {t.text}; font-size: {t.small}px; }}
    QDockWidget::title {{ background: {t.window}; padding: 4px 8px; border-top: 1px solid {t.line}; }}
    QMainWindow::separator {{ background: {t.line}; width: 1px; height: 1px; }}
    QStatusBar {{ background: {t.window}; color: {t.muted}; border-top: 1px solid {t.line}; font-size: {t.small}px; }}
    QStatusBar::item {{ border: none; }}
    QStatusBar QLabel {{ color: {t.muted}; font-size: {t.small}px; padding: 0 8px; }}
    QStatusBar QToolButton {{ color: {t.muted}; font-size: {t.small}px; padding: 0 20px 0 8px; }}
    QStatusBar QToolButton:focus {{ padding: 0 19px 0 7px; }}
    QMenuBar {{ background: {t.window}; color: {t.text}; border-bottom: 1px solid {t.line}; }}
    QMenuBar::item {{ padding: 4px 10px; background: transparent; }}
    QMenuBar::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QMenu {{ background: {t.surface}; color: {t.text}; border: 1px solid {t.border}; padding: 4px; }}
    QMenu::item {{ padding: 4px 24px 4px 24px; }}
    QMenu::item:selected {{ background: {t.accent_soft}; color: {t.text}; }}
    QMenu::item:disabled {{ color: {t.disabled}; }}
    QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 8px; }}
    QTabBar::tab {{ padding: 4px 12px; color: {t.muted}; border: none; border-bottom: 2px solid transparent; }}
    QTabBar::tab:selected {{ color: {t.text}; border-bottom: 2px solid {t.accent}; }}
    QTabBar::tab:focus {{ border: 2px solid {t.accent}; }}
    QTabWidget::pane {{ border: none; border-top: 1px solid {t.line}; }}
    QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
    QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
    QScrollBar::handle {{ background: {t.line}; border-radius: 4px; min-height: 24px; min-width: 24px; margin: 1px; }}
    QScrollBar::handle:hover {{ background: {t.border}; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
    """
