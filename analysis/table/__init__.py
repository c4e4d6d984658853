"""The tidy table, one row a number: its schema, its loading, and the controls of emulated nodes."""
