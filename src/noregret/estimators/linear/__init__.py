"""Estimators for the linear link, and of single entries of the transition table."""
