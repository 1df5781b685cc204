"""The one kind of error that the command line turns into a sentence and exit code 2."""


class InputError(ValueError):
    """What was given cannot be used; the message is one sentence: what, where, what was expected."""
