"""Online Newton steps, and sets made from any online learner."""
