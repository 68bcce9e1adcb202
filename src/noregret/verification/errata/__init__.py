"""What is wrong, loose or misprinted in Modi and Tewari (2020), each put to the test: docs/errata.md in code.

`CHECKS` maps a name to a function without arguments that runs one experiment (brute force, exact enumeration, or
simulation with a fixed seed, as its docstring says) on the printed claim and on the correction, and returns a
`Finding`. All of them take a few seconds; nothing else in the library depends on them.
"""

from ._tools import Finding
from .registry import CHECKS

__all__ = ["CHECKS", "Finding"]
