"""The WINA Workbench window. It talks to the science through `wina_core`'s light half and never imports torch."""

import pydantic.fields  # noqa: F401 - which pydantic loads late: Qt's hook on imports, once it is there, breaks that
