"""Count words exactly, and compute statistics of the text."""
