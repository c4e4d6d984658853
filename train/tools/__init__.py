"""Commands beside a measurement: is the machine ready, is the data whole, what limits the input."""
