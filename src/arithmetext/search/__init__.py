"""Search the text: find sentences, and locate a window of words."""
