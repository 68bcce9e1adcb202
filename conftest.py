"""Doctests are collected from the whole package; what cannot be imported without an extra is left out without it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("gymnasium") else ["src/noregret/gym/env.py"]
