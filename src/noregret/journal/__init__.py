"""The log of a programme in a database: every accepted event is one row, in one order, with a hash chain."""
