"""The figures of the five reports, a module each: the published points, with local ones on top."""
