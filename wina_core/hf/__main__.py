"""Run lm-eval's command line on sparse models: `python -m wina_core.hf lm_eval run --model hf --model_args ...`.

Whole matrices are multiplied, so that the numbers are those of the workbench's evaluations.
"""

import sys

from wina_core.hf import KERNELS

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
