"""Random numbers and small dense linear algebra, as kernels."""
