"""One module per figure or table of the paper; `paper/study.py` says what a module defines."""
