"""Everything that needs torch: models, rotation, gating, evaluation, latency."""

import os

# oneDNN keeps compiled code for each shape that it has multiplied, 1,024 of them, which experts fill with 0.3 GB: they
# read any number of tokens. It takes this when torch multiplies for the first time.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
