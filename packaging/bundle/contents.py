"""Contents of a bundle on every system; `wina.spec` hands them to PyInstaller."""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAME = "WINA Workbench"
IDENTIFIER = "org.wina-workbench"
ENTRY = Path(__file__).with_name("entry.py")
PATHS = [ROOT, ROOT / "app", ROOT / "kernels"]
PACKAGES = ("wina_app", "wina_core", "wina_kernels")
DATA = [
    (ROOT / "resources", "wina_core/_resources"),
    *((ROOT / name, ".") for name in ("LICENSE", "NOTICE")),
]
AS_SOURCE = {**dict.fromkeys((*PACKAGES, "lm_eval"), "py"), "triton": "pyz+py"}
"""Modules that must be files: figures and Triton read their own sources, alembic and lm-eval load files."""
LOADED_BY_NAME = [f"matplotlib.backends.backend_{name}" for name in ("agg", "pdf", "svg")]
"""Modules that libraries import by a name that no analysis finds."""
EXCLUDED = ["tkinter", "IPython", "pytest"]
ICONS = {"win32": "ico", "darwin": "icns"}
"""Formats of the icon of a program; on Linux the desktop entry has the icon."""
_INPUT_SUFFIXES = {"Sparsity plan": "wina.json", "Study": "wina.toml"}


def version() -> str:
    match = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    return match[1]


def native_library() -> list[tuple[Path, str]]:
    built = ROOT / "kernels" / "wina_kernels" / "native" / "built"
    return [(library, "wina_kernels/native/built") for library in built.glob("wina-*.so")]


def icon(folder: Path) -> Path | None:
    """Draw the program's icon in this system's format and return its file; None on Linux."""
    suffix = ICONS.get(sys.platform)
    if suffix is None:
        return None
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    image = QImage(256, 256, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    with QPainter(image) as painter:
        QSvgRenderer(str(ROOT / "resources" / "icons" / "app.svg")).render(painter)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"wina-workbench.{suffix}"
    if not image.save(str(file)):
        raise OSError(f"{file} could not be written")
    return file


def info_plist() -> dict[str, Any]:
    """Return the entries of a macOS bundle's Info.plist: its version, and the files that it opens."""
    kinds = [
        {"CFBundleTypeName": name, "CFBundleTypeExtensions": [suffix], "CFBundleTypeRole": "Editor"}
        for name, suffix in _INPUT_SUFFIXES.items()
    ]
    return {"CFBundleShortVersionString": version(), "CFBundleDocumentTypes": kinds, "NSHighResolutionCapable": True}
