"""Tests of what Triton compiles: on a GPU where there is one, under Triton's interpreter otherwise.

Triton decides when it is imported whether it interprets, and other tests may import it first: without a GPU,
`test_interpreted.py` runs all that is marked so in one process of its own.
"""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
runs = pytest.mark.skipif(not INTERPRETED and DEVICE == "cpu", reason="no GPU: test_interpreted.py runs this")
