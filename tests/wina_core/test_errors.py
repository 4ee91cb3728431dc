"""Errors as users read them."""

import pytest

from wina_core.errors import WinaError, unforeseen


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_memory_that_ran_out_is_one_sentence_with_what_to_lower(error: Exception) -> None:
    sentence = unforeseen(error)
    assert ("GPU" in sentence) == ("CUDA" in str(error))
    for word in ("memory ran out", "batch size", "tokens", "number of engines", "dtype", "quantized"):
        assert word in sentence.lower()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "The library torch cannot be loaded (No module"),
        (ImportError("libEGL.so.1: cannot open shared object file"), "A library cannot be loaded (libEGL.so.1: cannot"),
        (ImportError("libtorch.so: failed to map segment from shared object"), "Memory ran out"),
        (ImportError("cannot import name 'x'", name="wina_core.store"), "Something unforeseen happened (ImportError: "),
    ],
)
def test_a_library_that_cannot_be_loaded_is_named_and_a_defect_is_not_taken_for_one(
    error: Exception, sentence: str
) -> None:
    assert unforeseen(error).startswith(sentence)


def test_a_sentence_with_a_huge_value_keeps_its_beginning_and_its_end() -> None:
    sentence = str(WinaError(f"There is no task {'a' * 100_000}; check its name."))
    assert len(sentence) < 3_100
    assert sentence.startswith("There is no task aaa")
    assert sentence.endswith("aaa; check its name.")
