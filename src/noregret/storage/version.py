"""The version of the package, in one place: files and checkpoints name it."""

__version__ = "0.1.0"
