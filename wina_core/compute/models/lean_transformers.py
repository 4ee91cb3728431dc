"""transformers without the quantization libraries, which it imports wherever they are installed."""

from transformers import utils


def leave_out_quantizers() -> None:
    """Let transformers believe that hqq and torchao are not installed; to be called before it is asked for a class.

    With them it imports torch's compiler: 40 MB and seconds of every process, for caches and stored weights of kinds
    that nothing here makes or loads. Whoever imports them itself gets them nevertheless.
    """
    for module in (utils, utils.import_utils):
        module.is_hqq_available = lambda *_: False
        module.is_torchao_available = lambda *_: False
