"""Baselines for a horizon of one."""
