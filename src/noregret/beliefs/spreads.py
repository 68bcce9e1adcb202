"""Which measure of next values V turns a width of the transition estimate into a bonus: see `planning.bellman`."""

NONE, SUP, HALF_SPAN, CENTRED = 0, 1, 2, 3
