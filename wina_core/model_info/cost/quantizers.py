"""Check of quantizers that stored specs may name."""

from wina_core.errors import WinaError
from wina_core.specs.quantization import BUILT_IN_QUANTIZERS, NESTED, QUANTIZER_PLUGINS, Quantization, quantizer_names

NOT_MADE = "weights of the quantizer nested are no longer made; choose planes"
"""Said of specs of a version that was not released."""


def check_made(quantization: Quantization, *, load: bool = False) -> None:
    """Raise WinaError for a quantizer that only old databases and files name, and for one that is not installed.

    With `load`, a package's quantizer is loaded, and also refused if it cannot be used.
    """
    if isinstance(quantization, str) or quantization.quantizer in BUILT_IN_QUANTIZERS:
        return
    if quantization.quantizer == NESTED:
        raise WinaError(f"{NOT_MADE[0].upper()}{NOT_MADE[1:]}.")
    if not QUANTIZER_PLUGINS.has(quantization.quantizer, load=load):
        raise QUANTIZER_PLUGINS.unknown(quantization.quantizer, quantizer_names())
