"""The WINA Workbench window. It talks to the science through `wina_core`'s light half and never imports torch."""
