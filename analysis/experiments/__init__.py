"""What local records hold, by kind of experiment: numbers and figures side by side.

A kind is recognised by what its records hold (an axis, arms, epochs, times of allreduces, ...), never by a name.
"""
