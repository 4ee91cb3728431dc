"""Commands that compare with other tools on this machine."""
