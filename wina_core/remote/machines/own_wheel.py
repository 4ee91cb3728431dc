"""A wheel of this program, made of its own files: no build tool, no network, from a checkout and an installed wheel
alike."""

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name

from wina_core.errors import WinaError
from wina_core.files.own_command import is_bundle
from wina_core.files.paths import resources_folder
from wina_core.files.version import __version__

NAME = "wina-workbench"
_PACKAGES = ("wina_app", "wina_core", "wina_kernels")
_METADATA = ("METADATA", "entry_points.txt")
_WHEEL = "Wheel-Version: 1.0\nGenerator: wina-workbench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_wheel(folder: Path) -> Path:
    """Write the wheel into a folder and return it; WinaError in a bundle, which has no packages.

    Native kernels are in it where they were built; another kind of machine ignores them by their names.
    """
    own = _own_distribution()
    info = f"wina_workbench-{__version__}.dist-info"
    wheel = folder / f"wina_workbench-{__version__}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, content: bytes) -> None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            archive.writestr(name, content)

        for name, file in _files():
            add(name, file.read_bytes())
        for name in _METADATA:
            add(f"{info}/{name}", (own.read_text(name) or "").encode())
        add(f"{info}/WHEEL", _WHEEL.encode())
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return wheel


def constraints() -> str:
    """Return the versions of all libraries here, as constraints of pip: those that this program was tested with.

    Local versions ("+cpu") are those of one build and left out, as are packages that are installed from folders.
    """
    installed = {canonicalize_name(found.name): found for found in distributions()}
    wanted, found = [canonicalize_name(NAME)], set[NormalizedName]()
    while wanted:
        name = wanted.pop()
        if name in found or name not in installed:
            continue
        found.add(name)
        wanted += _required(installed[name])
    names = sorted(name for name in found if name != NAME and installed[name].read_text("direct_url.json") is None)
    return "".join(f"{name}=={installed[name].version.partition('+')[0]}\n" for name in names)


def _required(own: Distribution) -> Iterator[NormalizedName]:
    for line in own.requires or ():
        try:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield canonicalize_name(requirement.name)
        except (InvalidRequirement, UndefinedEnvironmentName):  # of another package, which pip could install
            continue


def _own_distribution() -> Distribution:
    try:
        if not is_bundle():
            return distribution(NAME)
    except PackageNotFoundError:
        pass
    raise WinaError(
        "This program cannot make its wheel, as it is not installed by pip; build one (python -m build --wheel) and "
        "name it: wina machines setup NAME --wheel FILE."
    )


def _files() -> Iterator[tuple[str, Path]]:
    """Yield each file with its name in the wheel, the resources below wina_core/_resources."""
    for package in _PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0])
        yield from ((f"{package}/{name}", file) for name, file in _below(folder) if not name.startswith("_resources/"))
    yield from ((f"wina_core/_resources/{name}", file) for name, file in _below(resources_folder()))


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(folder).as_posix(), file
