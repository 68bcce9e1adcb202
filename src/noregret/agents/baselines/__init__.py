"""What the paper compares with: tabular learners, bandits, R-max and its kin, methods linear in features."""
