"""The quantizers of installed packages."""

from torch import Tensor

from wina_core.compute.quantization.codes import LARGEST_ZERO, Codes, is_symmetric, levels
from wina_core.compute.quantization.rounding import as_codes
from wina_core.specs.quantization import QUANTIZER_PLUGINS, quantizer_names


def by_package(name: str, weight_t: Tensor, bits: int, group: int) -> Codes:
    """Quantize W^T [n, m], float32, by a package's quantizer; raise WinaError for a result that does not fit."""
    quantizer = QUANTIZER_PLUGINS.get(name)
    if quantizer is None:
        raise QUANTIZER_PLUGINS.unknown(name, quantizer_names())
    with QUANTIZER_PLUGINS.blamed(name):
        codes, scale, zero = quantizer(weight_t, bits, group)
        _check(codes, scale, zero, weight_t, bits, group)
    return as_codes(codes, scale, zero, group, bits)


def _check(codes: Tensor, scale: Tensor, zero: Tensor | None, weight_t: Tensor, bits: int, group: int) -> None:
    """Raise ValueError for codes, scales or zeros of a wrong shape or range."""
    n, m = weight_t.shape
    low, high = levels(bits)
    groups = (-(-n // group), m)
    if codes.shape != (n, m) or not bool(((codes >= low) & (codes <= high) & (codes == codes.round())).all()):
        raise ValueError(f"its codes are not whole numbers from {low} to {high} of the shape {n} x {m}")
    if (zero is None) != is_symmetric(bits):
        raise ValueError("it gives 8 bits a zero, or fewer bits none")
    for what, values in (("scales", scale), ("zeros", zero)):
        if values is not None and (values.shape != groups or not bool((values.abs() <= LARGEST_ZERO).all())):
            raise ValueError(f"its {what} are not numbers of float16 of the shape {groups[0]} x {m}")
    if codes.device != weight_t.device or scale.device != weight_t.device:
        raise ValueError(f"its codes and scales are not on {weight_t.device}")
