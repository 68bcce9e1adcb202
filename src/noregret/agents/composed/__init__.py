"""Agents made of agents: certificates around any agent, referral to an expert, agents of your own."""
