"""The versions, in order."""
