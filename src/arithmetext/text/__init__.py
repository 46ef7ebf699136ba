"""Generate the text: the words of a range of integers."""
