"""A GGUF model in llama.cpp through the low-level functions of llama-cpp-python: logits and greedy decoding."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from wina_core.errors import WinaError

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
        found = (self._api.llama_token * (len(content) + 1))()  # a token has a byte at least; one may come before
        count = self._api.llama_tokenize(self._vocab, content, len(content), found, len(found), False, False)
        if count < 0:
            raise WinaError(f"llama.cpp could not split a text into tokens; its status is {count}.")
        return list(found[:count])

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Return logits float32 [tokens, vocabulary] of one sequence."""
        self._clear()
        batch = self._api.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for at, token in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, at, 1
                batch.seq_id[at][0], batch.logits[at] = 0, 1
            self._decode(batch)
            memory = self._api.llama_get_logits(self._context)
            found = np.ctypeslib.as_array(memory, (len(tokens), self._vocabulary_size)).copy()
        finally:
            self._api.llama_batch_free(batch)
        return torch.from_numpy(found)

    def tokens_per_second(self, prompt: Sequence[int], count: int) -> tuple[float, list[int]]:
        """Return the speed from the first of `count` greedy tokens to the last, without the prompt, and the tokens."""
        self._clear()
        self._read(prompt)
        found = [self._most_likely()]
        start = time.perf_counter()
        for _ in range(count - 1):
            self._read(found[-1:])
            found.append(self._most_likely())
        return (count - 1) / (time.perf_counter() - start), found

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
