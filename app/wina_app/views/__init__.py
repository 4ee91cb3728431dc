"""Widgets: they show what they are given and emit what the user did; they decide nothing."""
