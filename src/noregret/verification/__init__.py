"""Whether what is claimed is true: experiments that could come out otherwise. `noregret verify` runs them.

`coverage`: sets contain the truth. `promises`: agents keep theirs in whole runs. `errata`: what is printed in
the paper and what is right, side by side. `scaling`: regret against the lower bound as a problem grows.
"""
