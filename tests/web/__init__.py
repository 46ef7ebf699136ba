"""The explorer: its API through a test client, its pages in a real browser."""
