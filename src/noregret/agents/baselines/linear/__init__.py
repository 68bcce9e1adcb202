"""Baselines that are linear in features: per entry of the transition table, or of the value function."""
