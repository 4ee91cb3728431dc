"""A folder of task files, read once: what is judged, hashed and loaded is the same bytes."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder, what_is_at
from wina_core.files.user_file import is_ordinary

CODE_SUFFIXES = ("", ".py", ".pyc", ".pyd", ".so", ".yaml", ".yml")
"""Suffixes of files that can be executed or included. Names without a suffix are often included templates."""
_LOADED = ("", ".py", ".yaml", ".yml")
_LARGEST = 4 * 2**20
"""Bytes of a file that is loaded."""
_MOST_FILES, _MOST_BYTES = 50_000, 256 * 2**20
_IGNORED = ("__pycache__",)
_LONGEST_NUMBER = 200
"""Characters of a number; Python takes quadratic time for long ones."""
_MOST_VALUES, _DEEPEST = 200_000, 64
"""Values and levels of a file after its aliases are expanded."""


@dataclass(frozen=True)
class Layer:
    """One file that a task's configuration is made of, without those that it includes."""

    path: Path
    config: dict[str, Any]
    shipped: bool
    """Part of lm-eval or of the workbench."""


@dataclass(frozen=True)
class TaskFile:
    """A task file with the files that it includes; later layers win."""

    path: Path
    layers: tuple[Layer, ...]

    @cached_property
    def config(self) -> dict[str, Any]:
        """The merged configuration, with functions as names. No layer takes `unsafe_code` back."""
        return merge([layer.config for layer in self.layers])


def merge(configs: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the layers of a task; `unsafe_code` in one of them stays."""
    merged = {key: value for config in configs for key, value in config.items()}
    if any(config.get("unsafe_code", False) is not False for config in configs):
        merged["unsafe_code"] = True
    return merged


class TaskFolder:
    """The files of a folder as they were when it was read."""

    def __init__(self, folder: str | Path) -> None:
        """Read the folder; raise WinaError if it does not exist or is too large."""
        path = Path(folder).expanduser()
        if what_is_at(path) != "folder":
            raise WinaError(f"The task folder {path} does not exist; correct it or leave it out.")
        self.path = path.resolve()
        self._shipped = is_shipped(self.path)
        self.files: dict[str, bytes] = {}
        """Contents of the files that can be loaded, by their path in the folder."""
        hashes: list[str] = []
        total = 0
        for name in sorted(_names(self.path)):
            content, size, digest = _read(self.path / name)
            total += size
            if len(hashes) == _MOST_FILES or total > _MOST_BYTES:
                raise WinaError(
                    f"The task folder {self.path} has more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MiB of "
                    "them; choose the folder that holds only the task files."
                )
            hashes.append(f"{name}\0{digest}\n")
            if content is not None and Path(name).suffix in _LOADED:
                self.files[name] = content
        self.digest = hashlib.sha256("".join(hashes).encode("utf-8", "surrogateescape")).hexdigest()
        """SHA-256 of the sorted paths and contents of the files of CODE_SUFFIXES, hidden ones left out."""
        self.problems: dict[str, str] = {}
        """Reasons why task files cannot be loaded."""

    @cached_property
    def tasks(self) -> tuple[TaskFile, ...]:
        """All task files that can be loaded, in lm-eval's order."""
        files = []
        for name in self.files:
            if name.endswith(".yaml"):
                try:
                    files.append(self._task_file(name))
                except ValueError as error:
                    self.problems[name] = str(error)
        return tuple(sorted(files, key=lambda file: file.path.as_posix()))

    def _task_file(self, name: str) -> TaskFile:
        path = self.path / name
        return TaskFile(path, tuple(self._layers(path, set())))

    def _layers(self, path: Path, seen: set[Path]) -> Iterator[Layer]:
        if path in seen:
            raise ValueError(f"it includes {path.name} twice")
        seen.add(path)
        name = _inside(self.path, path)
        content = self.files.get(name)
        config = parse(path.read_bytes() if content is None else content)
        included = config.pop("include", [])
        for included_name in included if isinstance(included, list) else [included]:
            for layer in self._layers(self._included(path, included_name), seen):
                # As in lm-eval, it belongs to the included file alone.
                layer.config.pop("task_list", None)
                yield layer
        yield Layer(path, config, self._shipped or content is None)

    def _included(self, path: Path, name: object) -> Path:
        target = Path(os.path.normpath(path.parent / str(name)))
        for candidate in (target, Path(os.path.realpath(target))):
            if _inside(self.path, candidate) in self.files or (is_shipped(candidate) and candidate.is_file()):
                return candidate
        raise ValueError(
            f"it includes {str(name)!r}, which is no YAML file of this folder or of lm-eval; choose the folder that "
            "holds both, or copy the file"
        )


def is_shipped(path: Path) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in _shipped_roots())


def members(config: Mapping[str, Any]) -> Iterator[str | Mapping[str, Any]]:
    """Yield the members of a group's configuration: names, and mappings of changed or inlined tasks and groups."""
    listed = config.get("task")
    if isinstance(listed, list):
        yield from (member for member in listed if isinstance(member, (str, Mapping)))


def member_names(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a group's members, those of inlined groups included."""
    names: list[str] = []
    for member in members(config):
        if isinstance(member, str):
            names.append(member)
        else:
            names.append(str(member.get("group") or member.get("task")))
            names += member_names(member)
    return names


def runs_programs(config: Mapping[str, Any]) -> bool:
    """Return whether a task, or one inlined in a group, runs programs that the model writes."""
    if config.get("unsafe_code", False) is not False:
        return True
    return any(isinstance(member, Mapping) and runs_programs(member) for member in members(config))


class TaskFunction(str):
    """Name after `!function`."""

    __slots__ = ()


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C one is faster
    pass


_Loader.add_constructor("!function", lambda loader, node: TaskFunction(loader.construct_scalar(node)))


def parse(content: bytes) -> dict[str, Any]:
    """Return the mapping of a task file; ValueError for anything else, and for a file that expands beyond bounds."""
    loader = _Loader(content)
    try:
        _check_nesting(content)
        node = loader.get_single_node()
        if node is not None:
            _measure(node, {})
        value = loader.construct_document(node) if node is not None else None
    except Exception as error:  # constructors of YAML raise any
        raise ValueError(f"it is no task file ({' '.join(str(error).split())[:200]})") from error
    finally:
        loader.dispose()
    if not isinstance(value, dict):
        raise ValueError("it is no task file (it holds no mapping)")
    return value


def _check_nesting(content: bytes) -> None:
    """Raise ValueError for a file nested too deep."""
    # By events, since libyaml composes nodes recursively: a deep file would end the process.
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels")


def _measure(node: yaml.Node, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Return the number of values and of levels of a node, aliases expanded."""
    if id(node) in measured:
        known_size = measured[id(node)]
        if known_size is None:
            raise ValueError("a value contains itself")
        return known_size
    measured[id(node)] = None
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [member for pair in node.value for member in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    elif node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _LONGEST_NUMBER:
        raise ValueError(f"a number has {len(node.value):,} characters")
    sizes = [_measure(child, measured) for child in children]
    size = 1 + sum(count for count, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
    # Before anything is constructed: a few lines of aliases of aliases expand to billions of values.
    if size[0] > _MOST_VALUES or size[1] > _DEEPEST:
        raise ValueError(f"more than {_MOST_VALUES:,} values or {_DEEPEST} levels")
    measured[id(node)] = size
    return size


@cache
def _shipped_roots() -> tuple[Path, ...]:
    spec = find_spec("lm_eval")
    packages = [Path(spec.origin).parent / "tasks"] if spec is not None and spec.origin else []
    return tuple(path.resolve() for path in (*packages, resources_folder() / "demo" / "tasks"))


def _names(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [subfolder for subfolder in folders if not subfolder.startswith(".") and subfolder not in _IGNORED]
        for name in files:
            if not name.startswith(".") and os.path.splitext(name)[1] in CODE_SUFFIXES:
                yield _inside(folder, Path(parent, name))


def _inside(folder: Path, path: Path) -> str:
    """Return the path within the folder; empty for one elsewhere."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""


def _read(path: Path) -> tuple[bytes | None, int, str]:
    """Return a file's content, None if it is too large to load, its size, and its hash; nothing of what is no file."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode) or not is_ordinary(status):
            return None, 0, ""
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
            digest, size = hashlib.sha256(content), len(content)
            # What is too large to load still counts for the digest.
            while size <= _MOST_BYTES and (block := file.read(2**20)):
                digest.update(block)
                size += len(block)
    except FileNotFoundError:  # a link to nothing
        return None, 0, ""
    except OSError as error:
        raise WinaError(f"The task file {path} cannot be read ({error.strerror}); check its permissions.") from error
    return (content if len(content) <= _LARGEST else None), size, digest.hexdigest()


# ---- the risk of running a model's programs, and the rules of their sandbox ------------------------------------------

RISK = (
    "The model's programs run in a sandbox without network, files or other processes, but a sandbox may have holes: "
    "consent only where nothing of value would be lost."
)
"""Shown with every request for consent to run a model's programs."""

PROCESSOR_SECONDS, WALL_SECONDS, MEMORY_BYTES = 3, 15.0, 2**30

RULES = {
    "allowed": (
        "computing with this Python's standard library and packages, in one process and one thread",
        f"{PROCESSOR_SECONDS} s of processor time and {MEMORY_BYTES / 2**30:.0f} GiB of memory for the program, the "
        f"same again for its tests, and {WALL_SECONDS:.0f} s of wall time for both",
        "reading the files of Python, its packages and the system's libraries, and nothing else",
        "reading the clock and random numbers",
    ),
    "refused": (
        "the network and any other connection",
        "any writing",
        "new processes and threads, and seeing those of the system",
        "the environment, and raising a limit",
    ),
    "verdict": (
        "the tests run in a second process with the same limits, which never runs the program's code",
        "only values, and requests to the program's own objects, cross between the two",
        "an object of the program never equals plain data; builtins and modules of the tests are the tests' own",
    ),
}
"""The sandbox's rules: allowed, refused, and the origin of the verdict."""


def sandbox_rules() -> str:
    return "\n".join(f"{rule.capitalize()}: {'; '.join(items)}." for rule, items in RULES.items())
