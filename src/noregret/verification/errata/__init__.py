"""What is wrong, loose or misprinted in Modi and Tewari (2020), each put to the test: docs/errata.md in code.

`CHECKS` maps a name to a function without arguments that runs one experiment (brute force, exact enumeration, or
simulation with a fixed seed, as its docstring says) on the printed claim and on the correction, and returns a
`Finding`. All of them take a few seconds; nothing else in the library depends on them.

>>> from noregret.verification.errata import CHECKS
>>> CHECKS["value-clip"]().printed_holds
False
"""

from . import estimation, optimism, randomised, lower_bound, conversion  # isort: skip  (in the order of the page)
from ._tools import CHECKS, Finding

__all__ = ["CHECKS", "Finding", "conversion", "estimation", "lower_bound", "optimism", "randomised"]
