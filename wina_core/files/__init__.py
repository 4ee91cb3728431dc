"""Files, folders and locks of the program, and the memory, disks and devices of its machine."""
