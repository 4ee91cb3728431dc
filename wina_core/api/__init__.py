"""The public Python API: thin functions that run the same jobs as the window and the command line.

Import from `wina_core` itself.
"""
