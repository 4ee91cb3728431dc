"""Log-probabilities of a model on a text in a file, for the fidelity of many other models to it.

Each is kept in 16 bits as its distance d below the largest of its token, d = RANGE (code / 65535)^2: fine near the top,
where the probability is, and at RANGE for all that are further below. Renormalized, they are the distribution P' that
all models are compared with, so that only the difference of P' from P is an error: of a token's KL divergence below
0.3 nats at most 1e-4 nats, of a larger one at most 0.03 %; of a mean over tokens far less, since errors cancel.
"""

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.files.tables import written_atomically
from wina_core.model_info.safetensors_header import read_safetensors_header

RANGE = 28.0
"""Largest distance below a token's largest log-probability, in nats: e^-28 times 262,144 tokens are 2e-7."""
_LARGEST = 2**16 - 1
_KIND = "reference"
_DTYPES = {"I64": np.int64, "I32": np.int32, "F32": np.float32, "U16": np.uint16}


class Reference:
    """A file of `write_reference`, whose rows are read one by one.

    Raises WinaError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            header = read_safetensors_header(path, _KIND)
            with safe_open(path, framework="numpy") as file:
                checksums, ids = file.get_tensor("checksums"), file.get_tensor("ids")
                likelihoods = file.get_tensor("likelihoods")
            codes = header.tensors["codes"]
            self._path, self._start = path, header.start + codes.data_offsets[0]
            self._shape: tuple[int, ...] = codes.shape[1:]
            if (codes.dtype, codes.shape[:2]) != ("U16", ids.shape):
                raise ValueError("its codes do not fit its ids")
            self.tokens: Tensor = torch.from_numpy(ids.astype(np.int64))
            """Ids of the text, [rows, sequence]."""
            self.likelihoods: NDArray[np.float32] = likelihoods
            """The model's log-probability of each row's ids after the first, [rows, sequence - 1], exact."""
            self.text_hash = hashlib.sha256(ids.tobytes()).hexdigest()[:16]
            """Equal for equal ids."""
            for row, expected in enumerate(checksums):
                if _checksum(self._row(row), ids[row], self.likelihoods[row]) != expected:
                    raise ValueError(f"row {row} does not have its checksum")
        except (OSError, SafetensorError, LookupError, ValueError, TypeError) as error:
            raise WinaError(f"it is damaged ({error}).") from error

    def codes(self, row: int) -> Tensor:
        """Return the codes of a row, uint16 [sequence, vocabulary]."""
        return torch.from_numpy(self._row(row))

    def _row(self, row: int) -> NDArray[np.uint16]:
        """Read the codes of a row; a mapped file would fill the memory with all of them."""
        count = int(np.prod(self._shape))
        return np.fromfile(self._path, np.uint16, count, offset=self._start + 2 * count * row).reshape(self._shape)


def encode(log: Tensor) -> Tensor:
    """Return the codes, int32 [..., vocabulary], of log-probabilities."""
    below = (log.amax(-1, keepdim=True) - log).clamp_(max=RANGE)
    return (below / RANGE).sqrt_().mul_(_LARGEST).round_().to(torch.int32)


def decode(codes: Tensor) -> Tensor:
    """Return the normalized log-probabilities, float32 [..., vocabulary], of codes."""
    return normalized((codes.to(torch.float32) / _LARGEST).square_().mul_(-RANGE))


def normalized(logits: Tensor) -> Tensor:
    """Return log-probabilities, float32 at least, of logits, with a sum in float64.

    Adding 20,000 equal small probabilities to a large one in float32, as `log_softmax` does, can be wrong by 1e-4.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits = logits - logits.amax(-1, keepdim=True)
    return logits.sub_(logits.exp().sum(-1, keepdim=True, dtype=torch.float64).log_().to(logits.dtype))


def reference_bytes(tokens: int, vocabulary: int) -> int:
    """Return the size of the file of a text's reference, without its small tensors."""
    return 2 * tokens * vocabulary


def write_reference(path: Path, tokens: Tensor, vocabulary: int, logits: Callable[[int], Tensor]) -> None:
    """Write the reference of a model on `tokens`, int64 [rows, sequence], a row at a time.

    `logits(row)` returns those of a row, [sequence, vocabulary]. Nothing is left of a file that is not written to the
    end. Raises WinaError if it cannot be written.
    """
    rows, sequence = tokens.shape
    ids = tokens.numpy().astype(np.int32)
    checksums = np.zeros(rows, np.int64)
    likelihoods = np.zeros((rows, sequence - 1), np.float32)
    shapes = {
        "checksums": ("I64", (rows,)),
        "ids": ("I32", (rows, sequence)),
        "likelihoods": ("F32", (rows, sequence - 1)),
        "codes": ("U16", (rows, sequence, vocabulary)),
    }
    header, starts = _header(shapes)
    with written_atomically(path) as file:
        file.write(header)
        file.seek(len(header) + starts["codes"])
        for row in range(rows):
            log = normalized(logits(row))
            codes = encode(log).cpu().numpy().astype(np.uint16)
            chosen = log[:-1].gather(-1, tokens[row, 1:, None].to(log.device))
            likelihoods[row] = chosen[:, 0].float().cpu().numpy()
            checksums[row] = _checksum(codes, ids[row], likelihoods[row])
            file.write(codes.data)
        for name, values in (("checksums", checksums), ("ids", ids), ("likelihoods", likelihoods)):
            file.seek(len(header) + starts[name])
            file.write(values.tobytes())


def _checksum(*parts: NDArray[Any]) -> int:
    """Return the CRC-32 of arrays, one after the other."""
    found = 0
    for part in parts:
        found = zlib.crc32(np.ascontiguousarray(part).data, found)
    return found


def _header(shapes: dict[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, dict[str, int]]:
    """Return the begin of a safetensors file, and the place of each tensor after it.

    safetensors itself writes only tensors that are in memory.
    """
    entries, starts, end = {}, {}, 0
    for name, (dtype, shape) in shapes.items():
        starts[name], size = end, int(np.prod(shape)) * np.dtype(_DTYPES[dtype]).itemsize
        end += size
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (starts[name], end)}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, starts
