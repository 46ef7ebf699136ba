"""Exact counts and statistics of the text."""
