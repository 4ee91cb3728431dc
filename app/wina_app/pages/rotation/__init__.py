"""Choose, measure and export a rotation."""
