"""mpg: where the accelerator time went."""

__version__ = "0.1.0"
