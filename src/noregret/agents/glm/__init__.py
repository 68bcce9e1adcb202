"""The agents of the paper: GLM-ORL and GLM-RLSVI, over point beliefs."""
