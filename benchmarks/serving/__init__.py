"""Load and faults for `noregret serve`, used by `benchmarks.serve` and by the tests.

people   simulated people: who they are, what happens to them, what they ask next
wire     HTTP over raw sockets, cheap
load     open arrivals and closed loops, duplicates, calls out of order
machine  the disk and the processors beside a run
server   service processes and PostgreSQL, started, killed, started again
books    whether everything that was acknowledged is in the journal, once, and folds to the same bits"""
