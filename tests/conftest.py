"""What pytest leaves alone."""

collect_ignore = ["fuzz_loader.py"]  # a program of its own, with a dependency of its own: `make fuzz`
