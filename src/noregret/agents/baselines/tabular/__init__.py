"""Tabular baselines, one learner per group of contexts."""
