"""Live use without a simulator: from a table of patients to decisions that can be audited.

encoder         rows of a table -> contexts that keep the norm bound
log             logged data in: warm starts
several         many individuals open at a time
outcomes        what is told of their steps: twice, late, or wrong
probabilities   the chance of each action
decision        what was decided, why, and the same again
decision_files  decisions as tables with a digest"""
