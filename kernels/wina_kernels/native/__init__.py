"""The native library: sources in C++, their build, and the operations of `reference` by it."""
