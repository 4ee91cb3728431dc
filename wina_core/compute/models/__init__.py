"""Hugging Face models, loaded and seen through one table of architectures."""

import sys

from transformers import utils

_UNUSED = ("is_hqq_available", "is_torchao_available", "is_scipy_available")


def _hide_quantizer_backends() -> None:
    """Make transformers see hqq, torchao and scipy as not installed; call this before loading any of its classes.

    With them it imports torch's compiler and losses of object detection: 40 MB and seconds for every process, for
    formats that nothing here uses. The same holds for chardet, which requests prefers to the detector that it brings
    along. Direct imports of the libraries still work.
    """
    for module in (utils, utils.import_utils):
        for name in _UNUSED:
            setattr(module, name, lambda *_: False)
    if "requests" not in sys.modules and "chardet" not in sys.modules:
        sys.modules["chardet"] = None  # type: ignore[assignment]
        import requests  # noqa: F401

        del sys.modules["chardet"]


_hide_quantizer_backends()
