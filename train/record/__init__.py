"""What crosses process borders: the run record, the parts that ranks leave, files and variables."""
