"""Everything that needs torch: models, rotation, gating, evaluation, latency."""
