"""The demo model: its corpus, its training, its n-gram baseline and its lm-eval tasks."""
