"""The public Python API: thin functions on the jobs, the session and the store behind the window and the command line.

Import from `wina_core` itself.
"""
