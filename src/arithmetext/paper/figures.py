"""How figures look: colours that stay apart in grey, each with its own line and its own mark."""

# From dark to light.
COLOURS = ("#1f2a6b", "#b0413e", "#2a9d8f", "#e0a030")
LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D")
