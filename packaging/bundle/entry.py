"""Entry point of both programs of a bundle: `wina-workbench`, the window, and `wina`, the command line.

`-m MODULE` runs a module of the program, as Python's interpreter does; engines and reports are started so.
"""

import multiprocessing
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # First: a worker process of multiprocessing starts here, and must run its own work alone.
    multiprocessing.freeze_support()
    if sys.argv[1:2] == ["-m"] and len(sys.argv) > 2:
        module = sys.argv[2]
        sys.argv[:3] = [module]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif Path(sys.executable).stem == "wina":
        from wina_core.cli import main

        main()
    else:
        # Imported here, so that the command line starts without Qt.
        from wina_app.__main__ import main as open_window

        sys.exit(open_window())
