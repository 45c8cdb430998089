"""Compiled programs as files: archives that `adjit.load` reads, and libraries for C."""
