"""Weights that stay in files instead of memory: the system reads a page when it is touched, and may take it back at any
time.

A model larger than memory works this way if each pass reads its layers in order and gives each one back.

Weights that are converted while a model is loaded or saved lie in files, too: transformers stacks the experts of a
layer, takes the stacks apart again, and casts to another data type. What it makes is copied to a file without a name.
"""

import ctypes
import mmap
import os
import sys
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from wina_core.compute.stages import save_atomically
from wina_core.errors import WinaError
from wina_core.files.hardware import OTHER_DISK, check_room
from wina_core.files.paths import cache_folder

_WILL_NEED = 3
"""MADV_WILLNEED of Linux: pages are read into the system's cache."""
_DONT_NEED = 4
"""MADV_DONTNEED of Linux: unchanged pages of a private mapping are dropped, and read anew from the file."""
_MAPS = Path("/proc/self/maps")
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


class MappedWeights:
    """The parameters and buffers of a model that are unchanged pages of files, so that their memory can be given back.

    A tensor of a model's files that is written to in place has memory of its own, which is kept until `move` writes it
    to a file.
    """

    def __init__(self, model: nn.Module, files: Iterable[Path] = ()) -> None:
        """Find the weights of a model in mappings; `files` are those that they were read from."""
        self._files = {file: _file_state(file) for file in files}
        self._states = {tensor: tensor_state(tensor) for tensor in in_files(_tensors(model).values())}

    @property
    def size(self) -> int:
        """Return the bytes of the unchanged weights in files."""
        return sum(tensor.nbytes for tensor in self._states if self.holds(tensor))

    def holds(self, tensor: Tensor) -> bool:
        return tensor in self._states and self._states[tensor] == tensor_state(tensor)

    def give_back(self, *modules: nn.Module) -> None:
        """Give back the memory of the unchanged weights of modules, which are read anew when they are touched.

        Raises WinaError if a file has another size than when it was mapped: beyond the end of a shorter one, the system
        ends the process.
        """
        # A file that replaced the mapped one has another inode; the mapping keeps the old content.
        for file, state in self._files.items():
            if (now := _file_state(file)) is not None and state is not None and now[0] == state[0] and now != state:
                raise WinaError(f"{file} was changed while it was read; copy the model again, and start anew.")
        for module in modules:
            for tensor in _tensors(module).values():
                if self.holds(tensor):
                    drop_pages(tensor)

    def give_back_behind(self, model: nn.Module, layers: Iterable[nn.Module]) -> None:
        """From now on, give back the memory of each layer once a call of the whole model has passed it."""
        calls: list[None] = []

        def passed(layer: nn.Module, *_: object) -> None:
            if calls and "forward" not in vars(layer):  # else it is skipped
                self.give_back(layer)

        # A `Passage` calls the layers alone, for all batches, and gives each one back itself.
        model.register_forward_pre_hook(lambda *_: calls.append(None))
        model.register_forward_hook(lambda *_: calls.pop(), always_call=True)
        for layer in layers:
            layer.register_forward_hook(passed)

    def read_ahead(self, module: nn.Module) -> None:
        """Read the unchanged weights of a module from disk on a thread, before they are touched."""
        spans = [(tensor.data_ptr(), tensor.nbytes) for tensor in _tensors(module).values() if self.holds(tensor)]
        threading.Thread(target=_read_pages, args=(spans,), daemon=True).start()

    def give_back_copies(self, tensors: Iterable[Tensor]) -> None:
        """Give back the memory of tensors that share it with an unchanged weight, as those of a state dict do."""
        unchanged = {tensor.data_ptr() for tensor in self._states if self.holds(tensor)}
        for tensor in tensors:
            if tensor.data_ptr() in unchanged:
                drop_pages(tensor)

    def move(self, module: nn.Module, file: Path) -> None:
        """Write a module's changed weights to a safetensors file, and read them from there from now on.

        Raises WinaError if the disk refuses.
        """
        current = _tensors(module)
        changed = {name: tensor.contiguous() for name, tensor in current.items() if not self.holds(tensor)}
        # safetensors refuses tensors that share memory.
        owners = {tensor.data_ptr(): name for name, tensor in changed.items()}
        changed = {
            name: tensor if owners[tensor.data_ptr()] == name else tensor.clone() for name, tensor in changed.items()
        }
        if not changed:
            return
        try:
            save_atomically(changed, file)
            with safe_open(file, framework="pt") as opened:
                stored = {name: opened.get_tensor(name) for name in changed}
        except (OSError, SafetensorError) as error:
            raise WinaError(f"{file} could not be written ({error}); free some space.") from error
        for tensor in in_files(current[name] for name in stored):
            drop_pages(tensor)  # else the mapping of the whole file keeps them
        for name, tensor in stored.items():
            current[name].data = tensor
            self._states[current[name]] = tensor_state(current[name])


def _file_state(file: Path) -> tuple[int, ...] | None:
    """Return a file's number and size; None once it is gone, which leaves what was mapped."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size


def tensor_state(tensor: Tensor) -> tuple[int, int]:
    """Return a tensor's address and version, which change with its numbers; inference tensors have no version.

    A new memory behind `data` has another address. torch does not count writes through `data`.
    """
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module by name, tied ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def in_files(tensors: Iterable[Tensor], mappings: Sequence[tuple[int, int]] | None = None) -> list[Tensor]:
    """Return the tensors whose memory is a mapping of a file; `mappings` are those of `file_mappings`, if known."""
    files = sorted(file_mappings() if mappings is None else mappings)
    starts = [start for start, _ in files]

    def mapped(tensor: Tensor) -> bool:
        index = bisect_right(starts, tensor.data_ptr()) - 1
        return index >= 0 and tensor.data_ptr() < files[index][1]

    return [tensor for tensor in tensors if tensor.is_cpu and mapped(tensor)]


def file_mappings() -> list[tuple[int, int]]:
    """Return the addresses, start and end, of this process's mappings of files; none where the system does not list
    them."""
    if not _MAPS.exists():
        return []
    mappings = []
    for line in _MAPS.read_text().splitlines():
        addresses, _, _, _, inode, *_ = line.split()
        # Anonymous memory has no file, and so no inode.
        if inode != "0":
            start, end = addresses.split("-")
            mappings.append((int(start, 16), int(end, 16)))
    return mappings


def drop_pages(tensor: Tensor) -> None:
    """Give back the whole pages of a tensor in a mapping of a file, which are read anew when they are touched.

    Partial pages at its ends stay: they may hold changes of neighbours. So do all pages of a tensor that is not
    contiguous, whose gaps may hold such changes. In a private mapping, changes of the tensor are lost.
    """
    if _LIBRARY is None or not tensor.is_contiguous():
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        _LIBRARY.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), _DONT_NEED)


def _read_pages(spans: Iterable[tuple[int, int]]) -> None:
    """Read the pages of memory (address, bytes) that is mapped from files; one that is no longer mapped is refused."""
    for start, size in spans:
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        if _LIBRARY is not None:
            _LIBRARY.madvise(ctypes.c_void_p(first), ctypes.c_size_t(start + size - first), _WILL_NEED)


_ATEN = torch.ops.aten
_MAKING = (
    _ATEN.stack.default,
    _ATEN.cat.default,
    _ATEN.clone.default,
    _ATEN.new_empty.default,
    _ATEN._to_copy.default,
)
"""Operations that give new memory to a weight."""
_ROOM_FOR = "Memory does not hold the model, and a weight that transformers converts takes"
_IN_ONE_THREAD = "HF_DEACTIVATE_ASYNC_LOAD"
"""Variable that makes transformers read weights in the calling thread, the only one whose operations a mode sees."""


@contextmanager
def converted_in_files(give_back: Callable[[Iterable[Tensor]], object]) -> Iterator[None]:
    """Keep weights that are converted within the block in files, for as long as they are used.

    `give_back` takes what was converted, to give back the memory of tensors that are unchanged in files. Raises
    WinaError if the disk has no room, also where the block turns that into an error of its own.
    """
    mode, before = _InFiles(give_back), os.environ.get(_IN_ONE_THREAD)
    os.environ[_IN_ONE_THREAD] = "1"
    try:
        with mode:
            yield
    finally:
        os.environ.pop(_IN_ONE_THREAD)
        if before is not None:
            os.environ[_IN_ONE_THREAD] = before
        if mode.refused is not None:
            raise mode.refused


class _InFiles(TorchDispatchMode):
    def __init__(self, give_back: Callable[[Iterable[Tensor]], object]) -> None:
        super().__init__()
        self._give_back = give_back
        self._latest: Tensor | None = None
        self.refused: WinaError | None = None

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in _MAKING or not isinstance(result, Tensor) or not result.is_cpu or not result.numel():
            return result
        if self._latest is not None:
            drop_pages(self._latest)  # it is filled by now
        self._give_back(args[0] if isinstance(args[0], list | tuple) else (args[0],))
        try:
            copy_in_file = in_new_file(result.numel(), result.dtype, _ROOM_FOR, OTHER_DISK).view(result.shape)
        except WinaError as error:
            self.refused = error
            raise
        if func is not _ATEN.new_empty.default:
            copy_in_file.copy_(result)
        self._latest = copy_in_file
        return copy_in_file


def give_back_unchanged(tensors: Iterable[Tensor]) -> None:
    """Give back the memory of tensors in files, none of which may have been changed since it was mapped."""
    for tensor in in_files(tensors):
        drop_pages(tensor)


def give_back_converted(tensors: Iterable[Tensor]) -> None:
    """Give back the memory of those tensors that were converted, which keep what is written to them."""
    for tensor in tensors:
        if tensor.untyped_storage().filename is not None:  # torch names shared mappings alone
            drop_pages(tensor)


def in_new_file(count: int, dtype: torch.dtype, purpose: str, advice: str) -> Tensor:
    """Return a tensor [count] of zeros whose memory is a file in the cache folder, which goes with it; for Linux alone.

    The file has no name, so that it is gone with the process, too. Raises WinaError without room for `purpose`, such as
    "The states take", with `advice`.
    """
    folder = cache_folder()
    size = count * dtype.itemsize
    check_room(folder, size, purpose, advice)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a page without room would end the process
            # torch maps a file by its path, and this one has no other.
            return torch.from_file(f"/proc/self/fd/{file.fileno()}", shared=True, size=count, dtype=dtype)
    except (OSError, RuntimeError) as error:  # torch's, if the system refuses another mapping
        raise WinaError(f"{folder} could not be written to ({error}); {advice}.") from error
