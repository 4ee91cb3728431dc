"""Float64 recomputation of the gate rules, transforms and searches of the published methods.

The package uses PyTorch alone and imports nothing of the project, so that it can serve as an oracle. The definitions
come from the papers and from the authors' public repositories; each function names its source file. Arithmetic is
float64. The released code rounds to float16 in places (scores before histograms, thresholds, low-rank factors); the
oracle does not.
"""

from tests.released.recomputed.decoder import *  # noqa: F403
from tests.released.recomputed.gates import *  # noqa: F403
from tests.released.recomputed.greedy import *  # noqa: F403
from tests.released.recomputed.selections import *  # noqa: F403
from tests.released.recomputed.transform import *  # noqa: F403
