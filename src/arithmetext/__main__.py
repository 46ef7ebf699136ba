"""`python -m arithmetext` is `nt`."""

from .cli import main

main()
