"""Decisions over HTTP: programmes, their one writer each, the house rule that answers where the agent cannot, pages.

programme_file   what a programme is: a file, checked; house: its rule
asking           what is asked and answered; standing: what a person's own events allow; answers: the words
writer           rounds: take, check, have it decided, commit, answer; recall: what it remembers of the journal
player           the thread that owns the agent; items: what it is handed, and who claims it; rehearsal
sealing          the thread that writes snapshots; tenure: one time of holding the journal's lock
programme        all of these under a name; counts: its numbers; shadow: the agent beside the house rule
hosting          several programmes, several processes, take-over
app, serving, ...   HTTP: routes, messages, tokens, metrics, logs, the client
pages            the dashboard, and the page of one person"""
