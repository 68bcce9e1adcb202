"""Agents for multinomial-logit MDPs: one parameter vector per block of a design, contexts included."""
