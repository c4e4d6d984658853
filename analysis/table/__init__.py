"""The tidy table, one row a number: what it may hold, how it is read, and what the controls of emulated nodes say."""
