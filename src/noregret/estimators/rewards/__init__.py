"""Estimates and confidence sets of mean rewards."""
