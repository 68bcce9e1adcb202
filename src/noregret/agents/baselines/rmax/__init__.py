"""Baselines that explore until they know: covers, KWIK, clusters."""
