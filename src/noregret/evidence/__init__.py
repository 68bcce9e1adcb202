"""What a log says about policies and about the model, each answer with its rung: proved, asymptotic or believed."""
