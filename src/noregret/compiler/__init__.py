"""How kernels are compiled, cached and called by address. No other room knows the inside of Numba."""
