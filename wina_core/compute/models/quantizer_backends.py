"""Startup of transformers without the quantization libraries that it imports wherever they are installed."""

from transformers import utils


def hide_quantizer_backends() -> None:
    """Make transformers see hqq and torchao as not installed; call this before loading any of its classes.

    With them it imports torch's compiler: 40 MB and seconds for every process, for formats that nothing here uses.
    Direct imports of the libraries still work.
    """
    for module in (utils, utils.import_utils):
        module.is_hqq_available = lambda *_: False
        module.is_torchao_available = lambda *_: False
