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
"""

from wina_core.compute.sparse.format import KERNELS
from wina_core.compute.sparse.quantizer import WinaConfig, WinaQuantizer

__all__ = ["KERNELS", "WinaConfig", "WinaQuantizer"]
