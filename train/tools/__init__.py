"""Commands beside a measurement: is the machine ready, is the data complete, is the input the bottleneck."""
