"""Check of quantizers that stored specs may name."""

from wina_core.errors import WinaError
from wina_core.specs import Quantization, QuantizationSpec

NOT_MADE = "weights of the quantizer nested are no longer made; choose planes"
"""Said of specs of a version that was not released."""


def check_made(quantization: Quantization) -> None:
    """Raise WinaError for a quantizer that only old databases and files name."""
    if isinstance(quantization, QuantizationSpec) and quantization.quantizer == "nested":
        raise WinaError(f"{NOT_MADE[0].upper()}{NOT_MADE[1:]}.")
