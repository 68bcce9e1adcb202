"""Simulation: where the truth and the learner meet."""

from .run import Run, save_tables, simulate

__all__ = ["Run", "save_tables", "simulate"]
