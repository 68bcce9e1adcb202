"""`python -m noregret`."""

from .cli import app

app(prog_name="noregret")
