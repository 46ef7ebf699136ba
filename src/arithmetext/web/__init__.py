"""The explorer: a local web app in which people look at the text."""
