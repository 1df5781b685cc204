"""The errors whose message is one sentence for the user: what, where, what was expected."""


class InputError(ValueError):
    """Report that an input cannot be used; commands print the message and exit with 2."""


class SiteError(ValueError):
    """Report that a file of a site is missing or wrong; the message names file, line, key and what was expected."""


class RecordError(ValueError):
    """Report that a record is not usable; the message names the key and what was expected."""
