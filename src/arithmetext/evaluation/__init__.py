"""How well any model does: what it makes of prompts, and of given text."""
