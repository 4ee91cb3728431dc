"""An engine that answers each line with two; it ends after the line "end"."""

import sys

for line in sys.stdin:
    print(f"first {line}second {line}", end="", flush=True)
    if line == "end\n":
        sys.exit(7)
