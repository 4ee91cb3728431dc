"""`python -m wina_core.cli` is `wina`."""

from wina_core.cli import main

if __name__ == "__main__":
    main()
