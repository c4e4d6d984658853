"""What both sides of the record use: files that anybody may have written, text for terminals, cores of a host."""
