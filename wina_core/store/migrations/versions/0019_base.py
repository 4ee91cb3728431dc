"""The tables of version 0.2.0, on which later migrations build.

A fresh database is made from the declarations of tables.py at its head, so nothing ever runs here. Databases of earlier
schemas are refused (`upgrade.OLDEST`).
"""

revision = "0019"
down_revision = None
