"""Methods, allocators, quantizers and tasks that installed packages offer by entry points.

Only what the user installed with pip is found. Nothing in a file makes a package load.
"""

import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from wina_core.errors import Cancelled, WinaError, ran_out_of_memory

_log = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")


class Offer(NamedTuple):
    """One entry point of an installed package."""

    kind: str
    name: str
    package: str
    """Its name and version."""
    problem: str = ""
    """A sentence on why it is left out; empty if it is not."""


class Plugins(Generic[Loaded]):
    """The objects of one kind that packages offer. Names are known at once; each object is loaded when first needed.

    An object that cannot be used is reported in one sentence and left out; the others stay.
    """

    def __init__(self, kind: str, reserved: Collection[str], check: Callable[[str, EntryPoint], Loaded]) -> None:
        """Offer the entry points of the group "wina.<kind>s" whose names are not `reserved`.

        `check` takes a name and what its entry point names. It returns the object, or raises an exception for what does
        not fit.
        """
        self.kind, self._reserved, self._check = kind, reserved, check
        self._loaded: dict[str, Loaded] = {}
        self._left_out: list[Offer] = []
        # Methods are also imported on a thread while the window opens.
        self._loading = RLock()

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        points: dict[str, EntryPoint] = {}
        for point in _entry_points(f"wina.{self.kind}s"):
            if point.name in self._reserved or point.name in points:
                self._leave_out(point, "its name is taken")
            elif not point.name.isidentifier():
                self._leave_out(point, "its name has characters other than letters, digits and _")
            else:
                points[point.name] = point
        return points

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, loading nothing; without those that turned out to be unusable."""
        return tuple(self._points)

    def get(self, name: str) -> Loaded | None:
        """Return the object of a name; None for an unknown or unusable one."""
        with self._loading:
            point = self._points.get(name)
            if point is not None and name not in self._loaded:
                try:
                    with redirect_stdout(sys.stderr):  # stdout is for what a command prints
                        self._loaded[name] = self._check(name, point)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # of code that is not ours
                    self._leave_out(point, _reason(error))
                    self._points.pop(name, None)
            return self._loaded.get(name)

    def check(self, name: str, built_in: Collection[str], *, load: bool = False) -> None:
        """Raise WinaError for a name that is neither built in nor of a package.

        With `load`, an object of a package is loaded, and also refused if it cannot be used.
        """
        is_offered = self.get(name) is not None if load else name in self._points
        if name not in built_in and not is_offered:
            raise self.unknown(name, (*built_in, *self.names))

    def version(self, name: str) -> str:
        """Return the package that offers a name, with its version; empty for what is built in or unknown."""
        return _package(self._points[name]) if name in self._points else ""

    def unknown(self, name: str, names: Collection[str]) -> WinaError:
        """Return the error for a name that is none of `names`."""
        problem = next((offer.problem for offer in self._left_out if offer.name == name), None)
        return WinaError(
            problem
            or f'There is no {self.kind} "{name}"; choose one of {", ".join(names)}, or install the package that has '
            "it."
        )

    @contextmanager
    def blamed(self, name: str) -> Iterator[None]:
        """Turn an exception of a package's code into a WinaError that names the package; log its traceback.

        What the code prints goes to stderr.
        """
        try:
            with redirect_stdout(sys.stderr):
                yield
        except Exception as error:
            if name not in self._points or isinstance(error, (WinaError, Cancelled)) or ran_out_of_memory(error):
                raise
            _log.warning('The %s "%s" failed.', self.kind, name, exc_info=error)
            raise WinaError(
                f'The {self.kind} "{name}" of {self.version(name)} failed ({_reason(error)}); report it to the authors '
                "of that package."
            ) from error

    def offers(self) -> list[Offer]:
        """Load everything, and return what is on offer and what is left out."""
        for name in self.names:
            self.get(name)
        return [*(Offer(self.kind, name, _package(point)) for name, point in self._points.items()), *self._left_out]

    def _leave_out(self, point: EntryPoint, reason: str) -> None:
        problem = (
            f'The {self.kind} "{point.name}" of {_package(point)} is left out ({reason}); correct or uninstall that '
            "package."
        )
        self._left_out.append(Offer(self.kind, point.name, _package(point), problem))
        _log.warning("%s", problem)


def callable_of(_name: str, point: EntryPoint) -> Callable[..., Any]:
    """Import the function that an entry point names; raise WinaError for anything else."""
    function = point.load()
    if not callable(function):
        raise WinaError(f"{point.value} is no function")
    return function


def _folder_of(name: str, point: EntryPoint) -> dict[str, Path]:
    """Return the task files in the folder of an entry point's package, by task. Nothing is imported.

    Raises WinaError for a folder without a task of that name's prefix, and for a task that lm-eval has.
    """
    first, *rest = point.value.split(".")
    spec = find_spec(first)  # a nested name would import the packages around it
    folders = [Path(root, *rest) for root in (spec and spec.submodule_search_locations) or ()]
    files = {file.stem: file for folder in folders for file in sorted(folder.glob("*.yaml"))}
    own_files = {task: file.resolve() for task, file in files.items() if task == name or task.startswith(f"{name}_")}
    if not own_files:
        raise WinaError(f"the folder {point.value} has no file {name}.yaml or {name}_*.yaml")
    if stock := sorted(own_files.keys() & _stock_tasks()):
        raise WinaError(f"lm-eval has a task {stock[0]} of its own")
    return own_files


TASK_PLUGINS: Plugins[dict[str, Path]] = Plugins("task", ("demo",), _folder_of)


def task_files() -> dict[str, Path]:
    """Return the task files of all packages by task; a task is named as its file."""
    return {task: file for name in TASK_PLUGINS.names for task, file in (TASK_PLUGINS.get(name) or {}).items()}


@cache
def _stock_tasks() -> frozenset[str]:
    """Return the names of lm-eval's task files, which most of its tasks have; `tasks.check_runs` knows all others."""
    spec = find_spec("lm_eval")
    roots = (spec and spec.submodule_search_locations) or ()
    return frozenset(file.stem for root in roots for file in Path(root, "tasks").rglob("*.yaml"))


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _reason(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, WinaError) else f"{type(error).__name__}: {first}".rstrip(": ")
