"""The figures of local records, by kind of experiment."""
