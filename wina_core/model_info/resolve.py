"""The files of models, texts and tasks on disk, their fingerprints, and the BOS token that a tokenizer puts before a
text.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder, resources_folder, what_is_at
from wina_core.files.user_file import open_file, read_file
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.safetensors_header import read_safetensors_header
from wina_core.model_info.small_models import location_of
from wina_core.model_info.text_files import in_data_folder, split_range
from wina_core.specs import (
    SYNTHETIC,
    EvaluationSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plugins import task_files

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_WHOLE = 32 * 2**20
"""Largest weight file to digest whole, in bytes; of larger ones, samples of every tensor."""
_BLOCK = 4096
_BLOCKS_PER_TENSOR = 4
DATA_SUFFIXES = (".jsonl", ".parquet")
"""Suffixes of local data files."""
TASK_SUFFIXES = (".yaml", ".yml", ".py", ".json", ".csv", *DATA_SUFFIXES)
"""Suffixes of files that a task's numbers may depend on."""
GGUF_SUFFIX = ".gguf"
_WEIGHTS = (".safetensors", GGUF_SUFFIX)
_SHIPPED = "demo:"
"""Prefix of a shipped text's name."""


def demo_folder() -> Path:
    return resources_folder() / "demo"


def with_location(source: ModelSource) -> ModelSource:
    """Return a source with the location behind the name of a fetched model; others as they are."""
    location = location_of(source.location)
    return source if location == source.location else source.model_copy(update={"location": location})


def local_folder(source: ModelSource) -> Path | None:
    """Return the folder that a source names, for a GGUF file that of its dequantized weights, or None for a hub id.

    Raises WinaError for a path without a folder, and for a GGUF file that was not opened here yet.
    """
    if (file := gguf_file(source)) is None:
        return _local_path(source)
    folder = dequantized_folder(file)
    if not folder.exists():
        raise WinaError(
            f"{file} is dequantized when it is first opened; open it first, as by "
            f"wina model info {shlex.quote(str(file))}."
        )
    return folder


def gguf_file(source: ModelSource) -> Path | None:
    """Return the GGUF file that a source names by itself or by its folder; None for other models.

    A folder with safetensors is opened by those. Raises WinaError as `local_folder`, and for a folder with several.
    """
    path = _local_path(source)
    if path is None or (path.suffix.lower() == GGUF_SUFFIX and what_is_at(path) == "file"):
        return path
    try:
        names = sorted(entry.name for entry in path.iterdir())
    except OSError:  # which checking the folder reports
        return None
    files = [name for name in names if name.lower().endswith(GGUF_SUFFIX)]
    if not files or any(name.endswith(".safetensors") for name in names):
        return None
    if len(files) > 1:
        raise WinaError(f"{path} holds {len(files)} GGUF files; open one of them, such as {path / files[0]}.")
    return path / files[0]


def dequantized_folder(file: Path) -> Path:
    """Return the folder of the cache with the dequantized weights of a GGUF file, which need not exist."""
    return cache_folder() / "dequantized" / fingerprint(file)


def _local_path(source: ModelSource) -> Path | None:
    """Return the folder or GGUF file that a source names; None for a hub id."""
    source = with_location(source)
    if source.location == "demo":
        return demo_folder() / "model"
    folder = Path(source.location).expanduser()
    kind = what_is_at(folder)
    if kind == "folder" or (kind == "file" and folder.suffix.lower() == GGUF_SUFFIX):
        return folder
    if kind == "file":
        raise WinaError(
            f"{folder} is a file, but a model is a folder with a config.json or a GGUF file; choose the folder it is "
            "in."
        )
    if _HUB_ID.fullmatch(source.location):
        return None
    raise WinaError(f"The model folder {folder} does not exist; check the path, or give a Hugging Face model id.")


def files_of(source: ModelSource) -> Path:
    """Return the folder of a model's files, for a hub id that of its download; WinaError if there is none."""
    folder = local_folder(source)
    if folder is not None:
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    source = with_location(source)
    try:
        return Path(snapshot_download(source.location, revision=source.revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        raise WinaError(f"{source.location} is not downloaded.") from error


def resolve(source: ModelSource) -> ModelSource:
    """Return a source with absolute location and fingerprints; the location of a hub id stays as it is.

    The files are those of this computer, wherever the model is computed: an engine on another machine compares the
    fingerprint.
    """
    if source.location == SYNTHETIC:
        return source
    source = with_location(source)
    file = gguf_file(source)
    folder = file or _local_path(source)
    source = source.model_copy(update={"quantization": resolve_quantization(source.quantization)})
    if folder is None:
        downloaded = prepared_files(source)
        return source.model_copy(update={"bos": downloaded is not None and adds_bos(downloaded)})
    is_demo = folder.resolve() == (demo_folder() / "model").resolve()
    # A file in the Hub's cache is a link to one without a suffix.
    target = folder.resolve() if file is None else file.parent.resolve() / file.name
    location = "demo" if is_demo else str(target)
    changes = {"location": location, "fingerprint": fingerprint(folder), "bos": adds_bos(folder)}
    return source.model_copy(update=changes)


def prepared_files(source: ModelSource) -> Path | None:
    """Return the folder of a model's files; None where loading has still to download, to dequantize or to refuse it."""
    try:
        return files_of(source)
    except WinaError:
        return None


def resolve_quantization(quantization: Quantization, data: str | None = None) -> Quantization:
    if not isinstance(quantization, QuantizationSpec):
        return quantization
    return quantization.model_copy(update={"text": resolve_text(quantization.text, data)})


def resolve_rotation(spec: RotationSpec, data: str | None = None) -> RotationSpec:
    """Return a rotation with the fingerprints of its files: given matrices and a user's text."""
    changes: dict[str, object] = {"text": resolve_text(spec.text, data)}
    if spec.matrices is not None:
        path = _existing(spec.matrices, "file of rotation matrices")
        changes |= {"matrices": str(path.resolve()), "matrices_fingerprint": _digest([path], "file of matrices")}
    return spec.model_copy(update=changes)


def resolve_text(spec: TextSpec, data: str | None = None) -> TextSpec:
    """Return a text with absolute path and fingerprint; a shipped text stays as it is.

    `data` is the data folder that "data:NAME" lies in.
    """
    if spec.source.startswith(_SHIPPED):
        text_file(spec.source)
        return spec
    source = in_data_folder(spec.source, None if data is None else data_folder(data))
    path, (_, rows) = text_file(source), split_range(source)
    return spec.model_copy(update={"source": f"{path.resolve()}{rows}", "fingerprint": _digest([path], "text")})


def resolve_data(spec: EvaluationSpec) -> EvaluationSpec:
    """Return an evaluation with absolute folders of tasks and data, and their digests.

    Tasks of installed packages bring their folders, which come first: in later ones, a task of the same name precedes.

    Raises WinaError for a missing folder, and for a data folder without data.
    """
    changes: dict[str, object] = {}
    offered = task_files()
    of_packages = dict.fromkeys(str(offered[name].parent) for name in spec.task_names if name in offered)
    task_folders = [*of_packages, *(folder for folder in spec.task_folders if folder not in of_packages)]
    if task_folders:
        folders = [_folder(folder, "task") for folder in task_folders]
        files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in TASK_SUFFIXES]
        changes["task_folders"] = tuple(str(folder.resolve()) for folder in folders)
        changes["task_fingerprint"] = _digest((file for file in files if not file.is_dir()), "task file")
    if spec.data_folder is not None:
        folder = data_folder(spec.data_folder)
        files = sorted(path for path in folder.glob("*/*") if path.suffix in DATA_SUFFIXES)
        if not files:
            raise WinaError(
                f"The data folder {folder} holds no data; it needs a folder for each task, with a file for each split, "
                "as piqa/validation.jsonl."
            )
        digest = hashlib.sha256(
            "".join(f"{file.parent.name}/{_digest([file], 'data file')}\n" for file in files).encode(
                errors="surrogateescape"
            )
        )
        changes["data_folder"] = "demo" if spec.data_folder == "demo" else str(folder.resolve())
        changes["data_fingerprint"] = digest.hexdigest()[:16]
    return spec.model_copy(update=changes)


def data_folder(name: str) -> Path:
    """Return the folder of an EvaluationSpec's local data, "demo" or a path; WinaError where it does not exist."""
    return demo_folder() / "data" if name == "demo" else _folder(name, "data")


def _folder(name: str, of: str) -> Path:
    folder = Path(name).expanduser()
    if what_is_at(folder) != "folder":
        raise WinaError(f"The {of} folder {folder} does not exist; correct it or leave it out.")
    return folder


def fingerprint(folder: Path) -> str:
    """Return 16 hex digits over the files that determine a model's outputs: config, tokenizer and weights.

    Of a weight file over 32 MiB, the size, the header and four 4 KiB blocks of every tensor are read: a 30 GB model
    takes well under a second, and the edit of any tensor changes the digits. A GGUF file holds all of these.
    """
    if folder.suffix.lower() == GGUF_SUFFIX and what_is_at(folder) == "file":
        return _digest([folder], "file of a model")
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise WinaError(f"The model folder {folder} cannot be read ({error}); check its permissions.") from error
    named = (
        path
        for path in files
        if path.name == "config.json" or path.suffix == ".safetensors" or path.name.startswith("tokenizer")
    )
    return _digest(named, "file of a model")


def _digest(files: Iterable[Path], kind: str) -> str:
    digest = hashlib.sha256()
    for path in files:
        of = "weight file" if path.suffix.lower() in _WEIGHTS and kind == "file of a model" else kind
        with open_file(path, of) as file:
            size = os.fstat(file.fileno()).st_size
            name = "" if path.suffix.lower() == GGUF_SUFFIX else path.name  # it is the same model by any name
            # Names of files need not be UTF-8.
            digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
            for block in _samples(path, file, size, of):
                digest.update(block)
    return digest.hexdigest()[:16]


def _samples(path: Path, file: IO[bytes], size: int, kind: str) -> Iterator[bytes]:
    if path.suffix.lower() not in _WEIGHTS or size <= _WHOLE:
        yield from iter(partial(file.read, 1 << 20), b"")
        return
    if path.suffix.lower() == ".safetensors":
        header = read_safetensors_header(path, kind)
        # Sorted, so that the order in which a program wrote the tensors' names does not count.
        yield json.dumps(json.loads(header.text), sort_keys=True).encode()
        spans = [(header.start + entry.data_offsets[0], entry.bytes) for _, entry in sorted(header.tensors.items())]
    else:
        read = read_gguf_header(path)
        yield file.read(read.length)
        spans = [(tensor.start, tensor.bytes) for tensor in read.tensors.values()]
    for start, length in spans:
        for block in range(_BLOCKS_PER_TENSOR):
            file.seek(start + length * block // _BLOCKS_PER_TENSOR)
            yield file.read(min(_BLOCK, length))


def text_file(source: str) -> Path:
    """Return the file of a TextSpec's source: "demo:calibration", "demo:training", "demo:heldout", or a path, after
    which JSON lines may have a range of rows."""
    if source.startswith(_SHIPPED):
        path = demo_folder() / "text" / f"{source.removeprefix(_SHIPPED)}.txt"
        if what_is_at(path) != "file":
            raise WinaError(
                f'There is no demo text "{source}"; use demo:calibration, demo:training, demo:heldout or a file.'
            )
        return path
    return _existing(split_range(in_data_folder(source, None))[0], "text file")


def _existing(name: str, noun: str) -> Path:
    path = Path(name).expanduser()
    if what_is_at(path) != "file":
        raise WinaError(f"The {noun} {path} does not exist; check the path.")
    return path


def adds_bos(folder: Path) -> bool:
    """Return whether the tokenizer of a model, in its folder or GGUF file, puts a BOS token before a text.

    As in transformers, the post-processor of tokenizer.json decides. Without that file `add_bos_token` of the config
    does, if it is stated; SentencePiece files alone are of families that add one. A broken file adds none: loading
    reports it.
    """
    try:
        if folder.suffix.lower() == GGUF_SUFFIX:
            metadata = read_gguf_header(folder).metadata
            by_default = metadata.get("tokenizer.ggml.model") == "llama"  # SentencePiece
            return bool(metadata.get("tokenizer.ggml.add_bos_token", by_default))
        if state := _state(folder / "tokenizer.json"):
            return _begins_with_special(_read(folder / "tokenizer.json", state).get("post_processor"))
        state = _state(folder / "tokenizer_config.json")
        stated = _read(folder / "tokenizer_config.json", state).get("add_bos_token") if state else None
        return (folder / "tokenizer.model").is_file() and stated is not False
    except (WinaError, OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return False


def _state(path: Path) -> tuple[int, int] | None:
    """Return what changes with a file's content; None without the file."""
    if not path.is_file():
        return None
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=16)  # of a large vocabulary, parsing takes half a second, and every job resolves its model
def _read(path: Path, _state: tuple[int, int] | None) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(read_file(path, "file of a model"))
    return content


def _begins_with_special(processor: dict[str, Any] | None) -> bool:
    """Return whether a post-processor of the tokenizers library puts a special token before a single text."""
    if processor is None:
        return False
    if processor["type"] == "Sequence":
        return any(map(_begins_with_special, processor["processors"]))
    if processor["type"] == "TemplateProcessing":
        return bool(processor["single"]) and "SpecialToken" in processor["single"][0]
    return processor["type"] in ("BertProcessing", "RobertaProcessing")
