"""Steps of the keys on a heatmap in (layers, projections), alone and with Ctrl."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

_FAR = 1_000_000
"""Step to the edge, where the selection stops."""
MOVES = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_PageUp: (-8, 0),
    Qt.Key.Key_PageDown: (8, 0),
    Qt.Key.Key_Home: (0, -_FAR),
    Qt.Key.Key_End: (0, _FAR),
}
JUMPS = {
    Qt.Key.Key_Up: (-_FAR, 0),
    Qt.Key.Key_Down: (_FAR, 0),
    Qt.Key.Key_Left: (0, -_FAR),
    Qt.Key.Key_Right: (0, _FAR),
    Qt.Key.Key_Home: (-_FAR, -_FAR),
    Qt.Key.Key_End: (_FAR, _FAR),
}
STEPS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)
"""Keys that move by one cell."""


def is_command(event: QKeyEvent) -> bool:
    """Return True with Ctrl held, which makes a digit or a letter a shortcut of the window, or with Alt."""
    return has_alt(event) or bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)


def has_alt(event: QKeyEvent) -> bool:
    return bool(event.modifiers() & (Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier))
