"""The one exception for input that a person can correct."""


class InputError(ValueError):
    """What was asked for cannot be done as written; the message says what would be right.

    The command line prints the message as one line and exits with code 2.
    """
