"""Yardsticks for the speed of the compiled loop: NumPy programs and peers. Not part of the installed package."""
