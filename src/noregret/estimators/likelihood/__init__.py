"""Online likelihood-ratio sets of the transition weights."""
