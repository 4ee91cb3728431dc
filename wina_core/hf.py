"""Loading of sparse models by transformers: import this, and `from_pretrained` knows folders of `wina export-model`.

    import wina_core.hf
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("sparse-model")

The model is gated: `generate`, `pipeline` and `save_pretrained` work as for any other. `model.wina.gates` counts what
was dropped. Decoding reads only the weights of kept inputs; `KERNELS["decoding"] = False` multiplies whole matrices
instead, whose results are those of the workbench's evaluations to the last bit.

transformers finds no quantizers by entry points, so that the import is needed. Without it, `from_pretrained` warns of
an unknown quantization type and then raises ValueError, "Unknown fusion type: none, but a sparse model: install
wina-workbench and import wina_core.hf before loading it". That text is an entry of `fusion_config` in config.json,
which transformers reads before it builds a model, and which this removes.

Run as a program, it is lm-eval's command line on sparse models: `python -m wina_core.hf lm_eval run --model hf
--model_args ...`. Whole matrices are multiplied there, so that the numbers are those of the workbench's evaluations.
"""

import sys

from wina_core.compute.sparse.format import KERNELS
from wina_core.compute.sparse.quantizer import WinaConfig, WinaQuantizer

__all__ = ["KERNELS", "WinaConfig", "WinaQuantizer"]

_USAGE = "Usage: python -m wina_core.hf lm_eval [arguments of lm-eval's command line]"


def main() -> None:
    """Run the program that the first argument names."""
    if sys.argv[1:2] != ["lm_eval"]:
        raise SystemExit(_USAGE)
    from lm_eval.__main__ import cli_evaluate  # takes seconds

    KERNELS["decoding"] = False
    del sys.argv[1]
    cli_evaluate()


if __name__ == "__main__":
    main()
