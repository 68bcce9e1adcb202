"""Mixture sets of the transition weights, from all steps that are stored."""
