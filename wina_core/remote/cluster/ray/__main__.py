"""The Ray driver's process."""

import os
import sys

from wina_core.remote.cluster.ray.driver import main

if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
