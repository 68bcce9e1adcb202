"""What is known before the first individual: sizes, bounds, masks (`problem`, `layout`), links, encoders of rows."""
