"""The workbench in a Linux desktop's menu: its entry, its icon, and the files that it opens, for one user.

The places are those of the XDG specifications, under XDG_DATA_HOME.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from wina_core.errors import WinaError
from wina_core.files.own_command import is_bundle
from wina_core.files.paths import resources_folder
from wina_core.files.tables import write_atomically

NAME = "wina-workbench"
FILE_TYPES = {
    "application/x-wina-plan+json": ("application/json", "*.wina.json", "WINA sparsity plan"),
    "application/x-wina-study+toml": ("text/plain", "*.wina.toml", "WINA study"),
}
"""By type: the type that it is a kind of, the names of its files, and its description."""


def install() -> list[Path]:
    """Write the files, replacing earlier ones, and return them. Raises WinaError if one cannot be written."""
    program = _program()
    drawing = (resources_folder() / "icons" / "app.svg").read_text(encoding="utf-8")
    entry, icon, types = _files()
    for file, text in ((entry, _entry(program)), (icon, drawing), (types, _types())):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WinaError(f"{file.parent} cannot be created ({error.strerror}); make it writable.") from error
        write_atomically(file, text.encode())
    _update_caches()
    return [entry, icon, types]


def remove() -> list[Path]:
    """Delete the files and return those that existed. Raises WinaError if one cannot be deleted."""
    removed = [file for file in _files() if file.exists()]
    for file in removed:
        try:
            file.unlink()
        except OSError as error:
            raise WinaError(f"{file} cannot be deleted ({error.strerror}); make its folder writable.") from error
    _update_caches()
    return removed


def _share() -> Path:
    if sys.platform != "linux":
        raise WinaError("Desktop entries are for Linux; on Windows and macOS build a bundle, as the guide says.")
    named = os.environ.get("XDG_DATA_HOME", "")  # the specification declares relative paths invalid
    return Path(named) if os.path.isabs(named) else Path.home() / ".local" / "share"


def _files() -> tuple[Path, Path, Path]:
    """Return the desktop entry, the icon and the file types."""
    share = _share()
    return (
        share / "applications" / f"{NAME}.desktop",
        share / "icons" / "hicolor" / "scalable" / "apps" / f"{NAME}.svg",
        share / "mime" / "packages" / f"{NAME}.xml",
    )


def _program() -> Path:
    """Return the program that opens the window, beside this interpreter or in this bundle."""
    beside = Path(sys.executable).with_name(NAME)
    if is_bundle() or beside.exists():
        return beside
    program = shutil.which(NAME)
    if program is None:
        raise WinaError(f"The program {NAME} is not installed beside {sys.executable}; install the workbench first.")
    return Path(program)


def _entry(program: Path) -> str:
    lines = {
        "Type": "Application",
        "Version": "1.0",
        "Name": "WINA Workbench",
        "GenericName": "Activation sparsity workbench",
        "Comment": "Measure activation sparsity in large language models",
        "Exec": f"{_quoted(str(program))} %F",
        "Icon": NAME,
        "Terminal": "false",
        "Categories": "Science;ArtificialIntelligence;",
        "MimeType": "".join(f"{name};" for name in FILE_TYPES),
        "StartupWMClass": NAME,
    }
    return "[Desktop Entry]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


def _quoted(path: str) -> str:
    quoted = "".join(f"\\{letter}" if letter in '"`$\\' else letter for letter in path)
    # A reader unescapes the entry's strings before it reads Exec's quotes, and % would begin a field code.
    return '"' + quoted.replace("\\", "\\\\").replace("%", "%%") + '"'


def _types() -> str:
    types = "".join(
        f'  <mime-type type="{name}">\n'
        f"    <comment>{escape(comment)}</comment>\n"
        f'    <sub-class-of type="{parent}"/>\n'
        f'    <icon name="{NAME}"/>\n'
        f'    <glob pattern="{pattern}"/>\n'
        "  </mime-type>\n"
        for name, (parent, pattern, comment) in FILE_TYPES.items()
    )
    namespace = "http://www.freedesktop.org/standards/shared-mime-info"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<mime-info xmlns="{namespace}">\n{types}</mime-info>\n'


def _update_caches() -> None:
    """Have the desktop read the files again if its tools are installed; without them it does so at the next login."""
    share = _share()
    for tool, folder in (("update-mime-database", "mime"), ("update-desktop-database", "applications")):
        if shutil.which(tool) and (share / folder).is_dir():
            subprocess.run([tool, share / folder], check=False, capture_output=True)
