"""Downloads from the Hugging Face Hub."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError

DOWNLOADED = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")
_NOT_DOWNLOADED = ("consolidated*", "original/*", "onnx/*")
_TRANSFER = ".transfer"
"""Suffix of huggingface_hub's second bar over the same files: bytes on the network, which may be compressed."""
_PATIENCE_SECONDS = 4.0

Progress = Callable[[float, float | None], None]
"""Called with the bytes that have come and those in all, None while unknown; what it raises ends the work."""


def download(model: str, revision: str | None, on_progress: Progress, files: tuple[str, ...] = DOWNLOADED) -> Path:
    """Return the hub's snapshot of a model in the local cache; missing `files` (patterns) are downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError

    try:
        return Path(
            snapshot_download(
                model,
                revision=revision,
                allow_patterns=list(files),
                ignore_patterns=list(_NOT_DOWNLOADED),
                tqdm_class=_download_bar(on_progress),
            )
        )
    except GatedRepoError as error:
        raise WinaError(
            f"{model} is gated: accept its terms on huggingface.co and log in with `hf auth login`."
        ) from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise WinaError(
            f"{model} is neither a folder here nor a model that could be fetched from the Hugging Face hub; "
            "check the spelling and the network connection."
        ) from error


def _download_bar(on_progress: Progress) -> type:
    """Return a class of bars for `snapshot_download` that reports received bytes."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts = kwargs.get("unit") == "B" and not str(kwargs.get("name", "")).endswith(_TRANSFER)
            self._done = float(kwargs.get("initial", 0))
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            if self._counts:
                self._done += n or 0
                on_progress(self._done, self.total or None)
            return super().update(n)

    return Bar


def is_reachable(model: str) -> bool:
    """Return whether the hub answers for a model within four seconds; False where HF_HUB_OFFLINE forbids asking."""
    answers: list[bool] = []

    def ask() -> None:
        from urllib.request import Request, urlopen

        from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

        if HF_HUB_OFFLINE:
            return
        try:
            with urlopen(Request(f"{ENDPOINT}/api/models/{model}", method="HEAD"), timeout=_PATIENCE_SECONDS) as answer:
                answers.append(answer.status == 200)
        except (OSError, ValueError):  # no network, another status, or an HF_ENDPOINT that is no address
            answers.append(False)

    # Looking up a name has no time limit of its own, so that a thread which may stay behind does it.
    thread = threading.Thread(target=ask, name="hub", daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    return any(answers)
