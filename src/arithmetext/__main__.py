"""`python -m arithmetext` runs `nt`."""

from .cli import main

main()
