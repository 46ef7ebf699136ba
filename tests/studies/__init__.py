"""Tests of the paper's studies, one module each; `cases.py` says how verdicts are tested."""
