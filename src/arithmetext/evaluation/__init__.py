"""What models do with the text: they continue it."""
