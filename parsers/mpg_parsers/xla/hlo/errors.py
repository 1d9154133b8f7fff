"""The one error of this package."""


class HloError(ValueError):
    """Bytes that are no HLO program, or a program that contradicts itself: the message says what."""
