"""Steps of the keys on a heatmap in (layers, projections), alone and with Ctrl."""

from PySide6.QtCore import Qt

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
