"""Long checks of trust, one command each: files cannot harm the program, and faults cannot stop it."""
