"""The WINA Workbench window. It talks to the science through `wina_core`'s light half and never imports torch."""

import pydantic.fields  # noqa: F401 - pydantic loads it late, which Qt's hook on imports would break
