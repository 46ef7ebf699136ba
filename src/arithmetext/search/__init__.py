"""Find sentences, and where a window of words stands."""
