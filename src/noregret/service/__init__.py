"""Decisions over HTTP: programmes, their one writer each, the house rule that answers where the agent cannot, pages."""
