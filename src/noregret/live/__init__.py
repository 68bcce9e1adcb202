"""Live use without a simulator: from a table of patients to decisions that can be audited.

log             logged data in: warm starts; arrival: in which order its people came
bounds          bounds of a problem, suggested by a log
several         many individuals open at a time: `Live` and its verbs
ward            who is not learned yet, in which order they are, and what an interruption left
people          one of them, and the file of all
outcomes        what is told of their steps: twice, late, or wrong
fold            what each event of a journal does to it
journaled       a `Live` that writes its events to a journal
replay          a journal folded again and compared; audit: one decision of it
decision        what was decided, why, and the same again
decision_files  decisions as tables with a digest"""
