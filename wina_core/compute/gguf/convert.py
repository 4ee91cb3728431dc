"""GGUF files of plain models: written by llama.cpp's own converter in a separate process, and checked in llama.cpp.

A GGUF model computes in llama.cpp through the low-level functions of llama-cpp-python: logits and greedy decoding.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import log_probabilities, probe_logits
from wina_core.compute.models.shortcuts import read_rotation_file
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.files.paths import check_new_file
from wina_core.model_info.model_checks import check_folder, read_config, read_json
from wina_core.records.plans import GgufRecord, GgufType, PerplexityPair
from wina_core.specs import TextSpec

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_MAGIC = b"GGUF"
_POLL_SECONDS = 0.2
"""Interval of checking for a cancellation while the converter works."""


def check_plain(folder: Path) -> None:
    """Raise WinaError unless a folder holds a model that other programs compute exactly, and no code."""
    read_config(folder)
    check_folder(folder)
    rotated = read_rotation_file(folder)
    if rotated and rotated.shortcuts:
        raise WinaError(
            f"The rotation of {folder} ({rotated.rotation.mode}) needs residual shortcuts, which GGUF files cannot "
            "hold; export the model with --rotation global or free."
        )
    for name in ("config.json", "tokenizer_config.json"):
        if (folder / name).is_file() and "auto_map" in read_json(folder / name):
            raise WinaError(
                f"{folder / name} names code of others, which llama.cpp's converter might run; remove auto_map."
            )


def convert(folder: Path, file: Path, converter: Path, kind: GgufType, reporter: Reporter) -> None:
    """Write `file` by llama.cpp's converter; raise WinaError with its reason where it fails, and Cancelled."""
    module = "wina_core.compute.gguf.run_converter"
    reporter.stage("")
    reporter.progress(0, None, "", "converting to GGUF")
    command: list[str | Path] = [*own_command(module), converter, folder, "--outfile", file, "--outtype", kind]
    # A file, since a pipe that nobody reads would fill up and stop the converter.
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **_OFFLINE},
            start_new_session=True,  # so that it ends with what it has started
        ) as process:
            try:
                while process.poll() is None:
                    reporter.check()
                    _wait(process)
            except BaseException:
                _kill(process)
                raise
        log.seek(0)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("[PYI-")]  # the end of any error in a bundle
    if process.returncode:
        reason = lines[-1].removeprefix("ERROR:hf-to-gguf:") if lines else f"exit status {process.returncode}"
        raise WinaError(f"llama.cpp's converter did not convert {folder} ({reason}).")
    if not _is_gguf(file):
        raise WinaError(f"{converter} wrote no GGUF file; get llama.cpp's {converter.name} again.")


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the leader of a session, with the processes that it has started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _is_gguf(file: Path) -> bool:
    """Return whether a converter wrote a file, no link, of the format."""
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(_MAGIC)) == _MAGIC


_TOKENS, _ROW = 2048, 512
_MAX_PERPLEXITY_CHANGE = 0.01
"""Relative difference of perplexities from which on the file holds another model."""


def write_gguf(
    folder: Path,
    file: Path,
    converter: Path,
    kind: GgufType,
    text: str,
    load: Callable[[], LoadedModel],
    reporter: Reporter,
) -> GgufRecord:
    """Write a plain model's folder as a GGUF file, checked in llama.cpp where llama-cpp-python is installed.

    `load` returns the model of the folder. Raises WinaError for a converter that fails, and a file whose perplexity on
    `text` differs from the model's by more than 1 %; then nothing is left.
    """
    try:
        with folder_beside(file) as scratch:
            partial = scratch / file.name
            convert(folder.absolute(), partial, converter, kind, reporter)
            pair = compare(load(), partial, text, reporter) if find_spec("llama_cpp") else None
            if pair and not is_same_model(pair):
                raise WinaError(
                    f"The perplexity of {text} is {pair.transformers:.4g} in transformers and {pair.llama_cpp:.4g} in "
                    "llama.cpp: the GGUF file holds another model, and was not kept."
                )
            check_new_file(file)  # another program may have made it during the conversion
            partial.replace(file)
    except OSError as error:
        raise WinaError(f"{file} could not be written ({error}); free some space or choose another name.") from error
    return GgufRecord(file=str(file.absolute()), bytes=file.stat().st_size, perplexity=pair)


@contextmanager
def folder_beside(file: Path) -> Iterator[Path]:
    """Yield a folder beside a file, on the same disk, for the block alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gguf-", dir=file.parent, ignore_cleanup_errors=True) as name:
        yield Path(name).absolute()


def compare(loaded: LoadedModel, file: Path, text: str, reporter: Reporter) -> PerplexityPair:
    """Return the perplexities of a model and its GGUF file on the same tokens of a text.

    Raises WinaError where llama.cpp cannot load the file.
    """
    reporter.stage("")
    reporter.progress(0, None, "", "comparing with llama.cpp")
    row = min(_ROW, getattr(loaded.model.config, "max_position_embeddings", None) or _ROW)
    rows = read_tokens(TextSpec(source=text, tokens=_TOKENS // row * row, sequence=row), loaded.tokenizer)
    first = loaded.view.first_scored
    words = loaded.tokenizer.decode(rows[0][first:])
    perplexity = _perplexity(probe_logits(loaded.view, rows), rows, first)
    with LlamaCppModel(file, torch.get_num_threads(), row) as peer:
        llama_cpp_perplexity = _perplexity([peer.logits(row_ids.tolist()) for row_ids in rows], rows, first)
        same = peer.encode(words) == loaded.tokenizer(words, add_special_tokens=False)["input_ids"]
    return PerplexityPair(
        text=text, tokens=rows.numel(), transformers=perplexity, llama_cpp=llama_cpp_perplexity, same_tokens=same
    )


def is_same_model(pair: PerplexityPair) -> bool:
    return abs(pair.llama_cpp / pair.transformers - 1) < _MAX_PERPLEXITY_CHANGE


def _perplexity(logits: Iterable[Tensor], rows: Tensor, first: int) -> float:
    """Return exp of the mean negative log-likelihood of the tokens that follow the positions from `first` on."""
    total = sum(
        float(log_probabilities(row_logits[first:-1]).gather(-1, row[first + 1 :, None]).double().sum())
        for row_logits, row in zip(logits, rows, strict=True)
    )
    return float(torch.tensor(-total / rows[:, first + 1 :].numel()).exp())


_CONTEXT = 2048
_quiet: Any = None
"""The callback that drops llama.cpp's log; C keeps its address."""


def peer_package(name: str) -> Any:
    """Import `llama_cpp` or `gguf`; raise WinaError where the package is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise WinaError(
            f"llama.cpp needs the Python package {error.name}, which is not installed; install the optional "
            "extra with: pip install 'wina-workbench[peers]' (it compiles llama.cpp, some 30 minutes on two cores)."
        ) from error


class LlamaCppModel:
    """A model in llama.cpp on the CPU, with one sequence at a time; use it as a context manager."""

    def __init__(self, file: Path, threads: int, context: int = _CONTEXT) -> None:
        api = peer_package("llama_cpp")
        _silence(api)
        self._api = api
        api.llama_backend_init()
        self._model = api.llama_model_load_from_file(str(file).encode(), api.llama_model_default_params())
        if not self._model:
            raise WinaError(f"llama.cpp could not load {file}.")
        parameters = api.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = context
        parameters.n_threads = parameters.n_threads_batch = threads
        self._context = api.llama_init_from_model(self._model, parameters)
        self._vocab = api.llama_model_get_vocab(self._model)
        self._vocabulary_size = api.llama_vocab_n_tokens(self._vocab)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text by the file's own tokenizer, without special ones."""
        content = text.encode("utf-8")
        tokens = (self._api.llama_token * (len(content) + 1))()  # a token has a byte at least; one may come before
        count = self._api.llama_tokenize(self._vocab, content, len(content), tokens, len(tokens), False, False)
        if count < 0:
            raise WinaError(f"llama.cpp could not split a text into tokens; its status is {count}.")
        return list(tokens[:count])

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Return logits float32 [tokens, vocabulary] of one sequence."""
        self._clear()
        # Filled by hand: `llama_batch_get_one` requests the logits of the last token alone.
        batch = self._api.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for at, token in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, at, 1
                batch.seq_id[at][0], batch.logits[at] = 0, 1
            self._decode(batch)
            # llama.cpp writes the next call's logits to the same memory.
            memory = self._api.llama_get_logits(self._context)
            logits = np.ctypeslib.as_array(memory, (len(tokens), self._vocabulary_size)).copy()
        finally:
            self._api.llama_batch_free(batch)
        return torch.from_numpy(logits)

    def tokens_per_second(self, prompt: Sequence[int], count: int) -> tuple[float, list[int]]:
        """Return the speed from the first of `count` greedy tokens to the last, without the prompt, and the tokens."""
        self._clear()
        self._read(prompt)
        tokens = [self._most_likely()]
        start = time.perf_counter()
        for _ in range(count - 1):
            self._read(tokens[-1:])
            tokens.append(self._most_likely())
        return (count - 1) / (time.perf_counter() - start), tokens

    def _clear(self) -> None:
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), True)

    def _read(self, tokens: Sequence[int]) -> None:
        ids = (self._api.llama_token * len(tokens))(*tokens)
        self._decode(self._api.llama_batch_get_one(ids, len(tokens)))

    def _decode(self, batch: Any) -> None:
        status = self._api.llama_decode(self._context, batch)
        if status != 0:
            raise WinaError(f"llama.cpp could not decode; its status is {status}.")

    def _most_likely(self) -> int:
        memory = self._api.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(memory, (self._vocabulary_size,)).argmax())


def _silence(api: Any) -> None:
    global _quiet
    if _quiet is None:
        _quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(_quiet, ctypes.c_void_p(0))
