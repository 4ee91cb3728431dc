"""Long checks of trust, one command each: files cannot harm the program, and faults cannot stop it."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT), str(ROOT / "app"), str(ROOT / "kernels")]
"""The folders that pytest adds from pyproject.toml, for the commands and the processes that they start."""
sys.path[:0] = [path for path in PATHS if path not in sys.path]
