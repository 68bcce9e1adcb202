"""The agents over local sets and posterior draws: LR-ORL, PSRL-GLM, Certified PSRL."""
