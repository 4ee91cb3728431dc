"""Engine processes as their clients see them: start, talk, share work, restart."""
