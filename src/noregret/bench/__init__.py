"""Yardsticks for the speed of the compiled loop."""
